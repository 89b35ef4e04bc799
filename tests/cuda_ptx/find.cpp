// tests/cuda_ptx/find.cpp -- finds a kernel's text by its pointer: the library's symbol table
// maps the pointer to a name, and nvcc's text has a kernel of that name. (Compares demangled names:
// g++ and nvcc mangle static functions differently.)
#include <cxxabi.h>
#include <dirent.h>
#include <dlfcn.h>
#include <elf.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>

#include <algorithm>

#include "ptx.h"

namespace ptx
{
namespace
{

std::string read_file(const std::string &path)
{
    FILE *f = fopen(path.c_str(), "rb");
    if (!f) stop("cannot read %s", path.c_str());
    std::string text;
    char part[65536];
    for (size_t n; (n = fread(part, 1, sizeof part, f));) text.append(part, n);
    fclose(f);
    return text;
}

// Demangles a name. nvcc prefixes names that are local to a file with a name for the file.
std::string readable(const std::string &name)
{
    int status;
    char *const made = abi::__cxa_demangle(name.c_str(), nullptr, nullptr, &status);
    std::string s = status ? name : made;
    free(made);
    for (size_t at; (at = s.find("_INTERNAL_")) != std::string::npos;)
        s.erase(at, s.find("::", at) + 2 - at);
    return s;
}

// --- texts ---------------------------------------------------------------------------------------

std::map<std::string, entry> &entries = *new std::map<std::string, entry>();

void read_sources(file *f)
{
    for (size_t at = f->text.find("\t.file\t"); at != std::string::npos;
         at = f->text.find("\t.file\t", at + 1)) {
        char name[512];
        unsigned number;
        if (sscanf(f->text.c_str() + at, "\t.file\t%u \"%511[^\"]", &number, name) != 2) continue;
        const char *const folder = strstr(name, "/kernels/");
        const char *const slash = strrchr(name, '/');
        f->sources[number] = folder ? folder + 1 : slash ? slash + 1 : name;
    }
}

// Registers all kernels of a text; returns the name of the last one.
std::string read_entries(const std::string &path, const std::string &text)
{
    file *const f = new file{ path, text, {} };
    std::string last;
    read_sources(f);
    size_t counted = 0;
    unsigned line = 1;
    for (size_t at = f->text.find(".entry "); at != std::string::npos;
         at = f->text.find(".entry ", at + 1)) {
        const size_t name = at + 7;
        line +=
            (unsigned)std::count(f->text.begin() + (long)counted, f->text.begin() + (long)at, '\n');
        counted = at;
        entry e = {};
        e.name = readable(f->text.substr(name, f->text.find_first_of("( \n", name) - name));
        e.from = f, e.text_at = at, e.line = line;
        last = e.name;
        if (!entries.emplace(e.name, e).second) stop("two kernels are named %s", e.name.c_str());
    }
    return last;
}

void read_folder(void)
{
    const std::string folder = getenv("CUDA_HOST_PTX");
    DIR *const d = opendir(folder.c_str());
    if (!d) stop("CUDA_HOST_PTX: cannot open the folder %s", folder.c_str());
    while (const struct dirent *one = readdir(d)) {
        const std::string name = one->d_name;
        if (name.size() < 4 || name.substr(name.size() - 4) != ".ptx") continue;
        const std::string path = folder + "/" + name;
        read_entries(path, read_file(path));
    }
    closedir(d);
}

// --- symbols -------------------------------------------------------------------------------------

// Returns the names of all functions of a library, by their offset from its base.
std::map<uint64_t, std::string> functions_of(const std::string &path)
{
    std::map<uint64_t, std::string> functions;
    const std::string text = read_file(path);
    const char *const base = text.data();
    const ElfW(Ehdr) *const head = reinterpret_cast<const ElfW(Ehdr) *>(base);
    const ElfW(Shdr) *const sections = reinterpret_cast<const ElfW(Shdr) *>(base + head->e_shoff);
    for (unsigned s = 0; s < head->e_shnum; s++) {
        if (sections[s].sh_type != SHT_SYMTAB) continue;
        const char *const names = base + sections[sections[s].sh_link].sh_offset;
        const ElfW(Sym) *const all =
            reinterpret_cast<const ElfW(Sym) *>(base + sections[s].sh_offset);
        for (size_t n = 0; n < sections[s].sh_size / sizeof *all; n++)
            if ((all[n].st_info & 15) == STT_FUNC)
                functions[all[n].st_value] = names + all[n].st_name;
    }
    return functions;
}

std::string name_of(const void *kernel)
{
    static std::map<uint64_t, std::string> &functions = *new std::map<uint64_t, std::string>();
    Dl_info info;
    if (!dladdr(kernel, &info)) stop("a kernel at %p is in no file", kernel);
    if (functions.empty()) functions = functions_of(info.dli_fname);
    const auto found = functions.find((uint64_t)((const char *)kernel - (char *)info.dli_fbase));
    if (found == functions.end()) stop("a kernel at %p has no symbol", kernel);
    return readable(found->second);
}
} // namespace

entry *find(const void *kernel)
{
    static std::map<const void *, entry *> &known = *new std::map<const void *, entry *>();
    entry *&e = known[kernel];
    if (e) return e;
    if (entries.empty()) read_folder();
    const std::string name = name_of(kernel);
    const auto found = entries.find(name);
    if (found == entries.end())
        stop("no .ptx file in %s has the kernel %s", getenv("CUDA_HOST_PTX"), name.c_str());
    e = &found->second;
    if (!e->parsed) parse(e);
    return e;
}

entry *find_in(const std::string &text, const std::string &path)
{
    entry *const e = &entries[read_entries(path, text)];
    parse(e);
    return e;
}

} // namespace ptx
