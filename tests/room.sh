#!/bin/bash
# Writes the main function that combines a folder's unit tests in one program to standard output:
# tests/room.sh FILE.c... The program runs the test named by the hard link that was started. Each FILE
# is compiled with -Dmain=FILE_main.
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
echo '    char path[4096] = ""; /* of this link; argv[0] does not tell, since a test may start itself under another name */'
echo '    if (readlink("/proc/self/exe", path, sizeof path - 1) < 0) return 2;'
echo '    const char *name = strrchr(path, 47) + 1;'
for file; do
    name=$(basename "$file" .c)
    grep -q '^int main(void)' "$file" && call='()' || call='(argc, argv)'
    echo "    if (!strcmp(name, \"$name\")) return ${name}_main$call;"
done
echo '    fprintf(stderr, "%s: start it through the hard link of a test\n", path);'
echo '    return 2;'
echo '}'
