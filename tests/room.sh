#!/bin/bash
# Writes the main function that joins a folder's unit tests into one program: tests/room.sh
# FILE.c... The program runs the test whose name it is called by (links to the program have the
# tests' names). Each FILE is compiled with -Dmain=FILE_main.
echo '#include <stdio.h>'
echo '#include <string.h>'
echo '#include <unistd.h>'
for file; do
    name=$(basename "$file" .c)
    arguments=$(grep -o '^int main([^)]*)' "$file" | sed 's/^int main//')
    echo "int ${name}_main${arguments};"
done
echo 'int main(int argc, char **argv)'
echo '{'
echo '    char path[4096] = ""; /* of this link: a test may start itself under another name */'
echo '    if (readlink("/proc/self/exe", path, sizeof path - 1) < 0) return 2;'
echo '    const char *name = strrchr(path, 47) + 1;'
for file; do
    name=$(basename "$file" .c)
    grep -q '^int main(void)' "$file" && call='()' || call='(argc, argv)'
    echo "    if (!strcmp(name, \"$name\")) return ${name}_main$call;"
done
echo '    fprintf(stderr, "%s: call the program by the name of one of its tests\n", path);'
echo '    return 2;'
echo '}'
