// tests/cuda_ptx/parse.cpp -- translates the text of a kernel, as nvcc writes it (one instruction
// per line), to instructions: names become offsets in a warp's registers, and constants become
// registers that hold them.
#include <ctype.h>
#include <stdlib.h>

#include <algorithm>

#include "ptx.h"

namespace ptx
{

struct reader {
    entry *e;
    std::map<std::string, std::pair<uint32_t, unsigned>>
        registers; // offset, size in bytes; 0: predicate
    std::map<std::pair<unsigned, std::string>, uint32_t> numbers;
    std::map<std::string, uint64_t> variables; // addresses of variables in shared memory
    std::map<std::string, uint32_t> labels;
    std::vector<std::pair<uint32_t, std::string>> branches;
    size_t shared_end = SHARED_BASE;
    std::string dynamic; // the name of dynamic shared memory
    unsigned line;
    std::string at; // the line, for messages
    std::string source;
};

static std::string trimmed(const std::string &s)
{
    const size_t from = s.find_first_not_of(" \t\r"), to = s.find_last_not_of(" \t\r");
    return from == std::string::npos ? "" : s.substr(from, to - from + 1);
}

[[noreturn]] static void unknown(const reader *r, const char *what)
{
    stop("%s: line %u of %s: %s", what, r->line, r->e->from->path.c_str(), r->at.c_str());
}

// Returns the offset of a new register; `bytes` 0: a predicate, with a bit per lane.
static uint32_t new_register(reader *r, unsigned bytes)
{
    std::vector<uint8_t> &image = r->e->image;
    const size_t place = (image.size() + 63) / 64 * 64;
    image.resize(place + (bytes ? bytes * LANES : sizeof(uint32_t)));
    return (uint32_t)place;
}

// --- operands ------------------------------------------------------------------------------------

static uint32_t *special(entry *e, const std::string &name)
{
    const size_t dot = name.find('.');
    if (dot == std::string::npos || dot + 2 != name.size()) return nullptr;
    const unsigned axis = (unsigned)(name.back() - 'x');
    if (axis > 2) return nullptr;
    const std::string what = name.substr(0, dot);
    return what == "%tid"      ? &e->tid[axis]
           : what == "%ctaid"  ? &e->block_at[axis]
           : what == "%ntid"   ? &e->block_size[axis]
           : what == "%nctaid" ? &e->grid_size[axis]
                               : nullptr;
}

// .global .align 4 .b8 name[128];  is initially zero, and shared by all kernels of the file.
static uint64_t variable(const reader *r, const std::string &name)
{
    static std::map<std::pair<const file *, std::string>, uint8_t *> &all =
        *new std::map<std::pair<const file *, std::string>, uint8_t *>();
    const std::string &text = r->e->from->text;
    const size_t at = text.find(" .b8 " + name + "["), line = text.rfind('\n', at) + 1;
    if (at == std::string::npos || text.compare(line, 8, ".global ") ||
        text[text.find(']', at) + 1] != ';')
        return 0;
    uint8_t *&memory = all[{ r->e->from, name }];
    const size_t size = strtoul(text.c_str() + text.find('[', at) + 1, nullptr, 10);
    if (!memory) watch_variable(memory = (uint8_t *)calloc(size + 16, 1), size);
    return (uint64_t)(uintptr_t)memory;
}

// Returns the bits of a constant or an address.
static uint64_t value(const reader *r, const std::string &s)
{
    if (s[0] == '0' && (s[1] == 'f' || s[1] == 'd')) return strtoull(s.c_str() + 2, nullptr, 16);
    if (isdigit(s[0]) || s[0] == '-') {
        char *end;
        const uint64_t v =
            s[0] == '-' ? (uint64_t)strtoll(s.c_str(), &end, 0) : strtoull(s.c_str(), &end, 0);
        if (!*end) return v;
    }
    const auto shared = r->variables.find(s);
    if (shared != r->variables.end()) return shared->second;
    const auto given = r->e->parameters.find(s);
    const bool is_given = given != r->e->parameters.end();
    if (const uint64_t at = is_given ? 0 : variable(r, s)) return at;
    if (!is_given) unknown(r, "unknown operand");
    return (uint64_t)((char *)r->e->memory.data() + given->second.at);
}

uint32_t register_bytes(reader *r, const std::string &text)
{
    const auto found = r->registers.find(text);
    return found == r->registers.end() ? 0 : found->second.second;
}

static uint32_t number(reader *r, const std::string &text, unsigned bytes)
{
    const auto known = r->numbers.find({ bytes, text });
    if (known != r->numbers.end()) return known->second;
    const uint64_t v = value(r, text);
    const uint32_t place = new_register(r, bytes), all = v & 1 ? ALL : 0;
    uint8_t *const to = r->e->image.data() + place;
    if (!bytes) memcpy(to, &all, sizeof all);
    for (unsigned l = 0; l < LANES && bytes; l++) memcpy(to + l * bytes, &v, bytes);
    return r->numbers[{ bytes, text }] = place;
}

uint32_t operand(reader *r, const std::string &text, unsigned bytes)
{
    if (text.empty()) unknown(r, "missing operand");
    if (text[0] != '%') return number(r, text, bytes);
    if (uint32_t *place = special(r->e, text)) {
        if (bytes != 4) unknown(r, "a special register of the wrong size");
        if (!*place) *place = new_register(r, 4);
        return *place;
    }
    const auto found = r->registers.find(text);
    if (found == r->registers.end() || found->second.second != bytes)
        unknown(r, "a register that is unknown or of the wrong size");
    return found->second.first;
}

// [%rd1+8], [name+8], [%r1]
location address(reader *r, const std::string &text, space where)
{
    if (text.size() < 3 || text[0] != '[') unknown(r, "not an address");
    const std::string inside = text.substr(1, text.size() - 2);
    const size_t plus = inside.find('+');
    const std::string base = inside.substr(0, plus);
    location at;
    at.offset = plus == std::string::npos ? 0 : strtoll(inside.c_str() + plus + 1, nullptr, 0);
    at.bytes = base[0] == '%' ? register_bytes(r, base) : 8;
    if (at.bytes != 8 && (at.bytes != 4 || where != SHARED)) unknown(r, "not an address");
    at.place = operand(r, base, at.bytes);
    return at;
}

std::vector<std::string> elements(const std::string &braces)
{
    std::vector<std::string> all;
    std::string inside = braces;
    if (inside[0] == '{') inside = inside.substr(1, inside.size() - 2);
    for (size_t at = 0; at <= inside.size();) {
        const size_t comma = std::min(inside.find(',', at), inside.size());
        all.push_back(trimmed(inside.substr(at, comma - at)));
        at = comma + 1;
    }
    return all;
}

// Splits at commas outside of brackets.
static std::vector<std::string> split_operands(const std::string &text)
{
    std::vector<std::string> all;
    std::string one;
    int depth = 0;
    for (const char c : text) {
        depth += (c == '{' || c == '[') - (c == '}' || c == ']');
        if (c != ',' || depth)
            one += c;
        else
            all.push_back(trimmed(one)), one.clear();
    }
    if (!trimmed(one).empty()) all.push_back(trimmed(one));
    return all;
}

// --- lines ---------------------------------------------------------------------------------------

// .reg .b32 %r<160>;  .reg .b32 %temp;
static void read_registers(reader *r, const std::string &line)
{
    static const std::map<std::string, unsigned> sizes = { { ".pred", 0 }, { ".b16", 2 },
                                                           { ".b32", 4 },  { ".f32", 4 },
                                                           { ".b64", 8 },  { ".f64", 8 } };
    const size_t type = line.find('.', 1), name = line.find('%');
    const auto size = sizes.find(trimmed(line.substr(type, name - type)));
    if (size == sizes.end()) unknown(r, "registers of an unknown type");
    const size_t count_at = line.find('<', name), end = line.find(';');
    const std::string base = trimmed(line.substr(name, std::min(count_at, end) - name));
    if (count_at == std::string::npos) {
        if (!r->registers.count(base))
            r->registers[base] = { new_register(r, size->second), size->second };
        return;
    }
    const unsigned count = (unsigned)strtoul(line.c_str() + count_at + 1, nullptr, 10);
    for (unsigned n = 0; n < count; n++)
        r->registers[base + std::to_string(n)] = { new_register(r, size->second), size->second };
}

// .shared .align 4 .b8 name[128];  .shared .align 1 .u8 name;  with .extern: dynamic shared memory.
static std::string shared_name(const std::string &line)
{
    const size_t end = line.find_first_of("[;"), space = line.find_last_of(' ', end);
    return line.substr(space + 1, end - space - 1);
}

// watch.cpp records units of four bytes, so no unit may hold two variables.
static void read_shared(reader *r, const std::string &line)
{
    const size_t align_at = line.find(".align "), size_at = line.find('[');
    const bool bytes = line.find(".b8 ") != std::string::npos && size_at != std::string::npos;
    const bool one = line.find(".u8 ") != std::string::npos && size_at == std::string::npos;
    if (align_at == std::string::npos || (!bytes && !one)) unknown(r, "a variable of unknown type");
    const size_t align =
        std::max<size_t>(strtoul(line.c_str() + align_at + 7, nullptr, 10), sizeof(uint32_t));
    if (line.find(".extern") == 0) {
        r->dynamic = shared_name(line);
        return;
    }
    r->shared_end = (r->shared_end + align - 1) / align * align;
    r->variables[shared_name(line)] = r->shared_end;
    r->shared_end += one ? 1 : strtoul(line.c_str() + size_at + 1, nullptr, 10);
}

// .loc 2 138 5, function_name $L__info_string1, inlined_at 1 22 5
static void read_place(reader *r, const std::string &line)
{
    unsigned file = 0, number = 0, column = 0, by_file = 0, by_line = 0;
    sscanf(line.c_str(), ".loc %u %u %u", &file, &number, &column);
    const auto name = [&](unsigned n) {
        const auto found = r->e->from->sources.find(n);
        return found == r->e->from->sources.end() ? std::string("?") : found->second;
    };
    r->source = name(file) + ":" + std::to_string(number);
    const size_t inlined = line.find("inlined_at ");
    if (inlined == std::string::npos) return;
    sscanf(line.c_str() + inlined, "inlined_at %u %u", &by_file, &by_line);
    r->source += " (in " + name(by_file) + ":" + std::to_string(by_line) + ")";
}

static void read_guard(reader *r, std::string *text, instruction *i)
{
    if ((*text)[0] != '@') return;
    const size_t end = text->find_first_of(" \t");
    i->guarded = true;
    i->unless = (*text)[1] == '!';
    i->guard = operand(r, text->substr(i->unless ? 2 : 1, end - (i->unless ? 2 : 1)), 0);
    *text = trimmed(text->substr(end));
}

static bool decode_flow(reader *r, const operation &o, instruction *i)
{
    const std::string &name = o.words[0];
    if (name == "bra") {
        i->what = BRANCH;
        r->branches.push_back({ (uint32_t)r->e->code.size(), o.operands[0] });
    } else if (name == "ret" || name == "exit") {
        i->what = EXIT;
    } else if (name == "bar" && o.words[1] == "sync" && o.operands.size() == 1 &&
               o.operands[0] == "0") {
        i->what = BARRIER;
    } else {
        return false;
    }
    return true;
}

static void read_instruction(reader *r, std::string text)
{
    instruction i = {};
    operation o;
    const std::string all = text;
    read_guard(r, &text, &i);
    o.text = text;
    text.pop_back(); // ;
    const size_t end = std::min(text.find_first_of(" \t"), text.size());
    for (size_t at = 0; at < end;) {
        const size_t dot = std::min(text.find('.', at), end);
        o.words.push_back(text.substr(at, dot - at));
        at = dot + 1;
    }
    o.operands = split_operands(text.substr(end));
    const bool at_barrier = decode_barriers(r, o, &i);
    r->e->mbarriers = r->e->mbarriers || at_barrier;
    if (!at_barrier && !decode_flow(r, o, &i) && !decode_memory(r, o, &i) &&
        !decode_together(r, o, &i) && !decode_arithmetic(r, o, &i))
        unknown(r, "unknown instruction");
    r->e->code.push_back(i);
    r->e->origins.push_back({ r->line, all, r->source });
}

static void read_line(reader *r, const std::string &line)
{
    if (line.empty() || line == "{" || line == "}") return;
    if (line.find(".reg") == 0)
        read_registers(r, line);
    else if (line.find(".shared") == 0)
        read_shared(r, line);
    else if (line.find(".loc") == 0)
        read_place(r, line);
    else if (line.find(".pragma") == 0)
        return;
    else if (line.back() == ':')
        r->labels[line.substr(0, line.size() - 1)] = (uint32_t)r->e->code.size();
    else if (line.back() == ';' && line[0] != '.')
        read_instruction(r, line);
    else
        unknown(r, "unknown line");
}

// --- a kernel ------------------------------------------------------------------------------------

// .param .u64 name,   .param .align 8 .b8 name[120]
static void read_parameter(reader *r, std::string line)
{
    static const std::map<std::string, size_t> sizes = { { ".u64", 8 }, { ".u32", 4 },
                                                         { ".f32", 4 }, { ".u16", 2 },
                                                         { ".u8", 1 },  { ".s8", 1 } };
    if (line.back() == ',') line.pop_back();
    const size_t end = line.find('[');
    const size_t space = line.find_last_of(" \t", std::min(end, line.size() - 1));
    const std::string name = line.substr(space + 1, end - space - 1);
    size_t size, align;
    if (end != std::string::npos) {
        size = strtoul(line.c_str() + end + 1, nullptr, 10);
        align = strtoul(line.c_str() + line.find(".align ") + 7, nullptr, 10);
    } else {
        const size_t type = line.find('.', 1);
        const auto found = sizes.find(trimmed(line.substr(type, space - type)));
        if (found == sizes.end()) unknown(r, "a parameter of an unknown type");
        size = align = found->second;
    }
    size_t at = 0;
    for (const auto &p : r->e->parameters) at = std::max(at, p.second.at + p.second.size);
    at = (at + align - 1) / align * align;
    r->e->parameters[name] = { at, size };
    r->e->parameter_sizes.push_back(size);
    r->e->memory.resize((at + size + 7) / 8);
}

// Reads variables declared outside of the kernels if this kernel uses them.
static void read_common(reader *r, const std::string &body)
{
    const std::string &text = r->e->from->text;
    for (const char *const how : { "\n.shared ", "\n.extern .shared " })
        for (size_t at = text.find(how); at != std::string::npos; at = text.find(how, at + 1)) {
            const std::string line = text.substr(at + 1, text.find('\n', at + 1) - at - 1);
            if (body.find(shared_name(line)) != std::string::npos) read_shared(r, line);
        }
}

static void resolve(reader *r)
{
    for (const auto &b : r->branches) {
        const auto label = r->labels.find(b.second);
        if (label == r->labels.end()) stop("unknown label %s", b.second.c_str());
        r->e->code[b.first].target = label->second;
    }
    r->e->code.push_back({}); // ends the kernel after the last instruction
    r->e->code.back().what = EXIT;
    r->e->origins.push_back({ r->line, "the end", r->source });
}

void parse(entry *e)
{
    const std::string &text = e->from->text;
    reader r;
    r.e = e;
    r.line = e->line;
    const size_t end = text.find("\n}", e->text_at);
    const std::string body = text.substr(e->text_at, end - e->text_at);
    new_register(&r, 8); // offset 0 is unused
    read_common(&r, body);
    // Dynamic shared memory follows all static variables, but instructions may precede their
    // declarations: the first pass reads declarations, the second instructions.
    for (int pass = 0; pass < 2; pass++) {
        bool inside = false;
        r.line = e->line - 1;
        for (size_t at = 0; at <= body.size();) {
            const size_t next = std::min(body.find('\n', at), body.size());
            std::string line = body.substr(at, next - at);
            line = trimmed(line.substr(0, line.find("//")));
            at = next + 1;
            r.line++, r.at = line;
            if (!inside && pass == 0 && line.find(".param") == 0) read_parameter(&r, line);
            if (!inside && line.find(".maxntid") == 0)
                e->threads_most = strtoull(line.c_str() + 8, nullptr, 10);
            if (inside && pass == 0 && line.find(".shared") == 0) read_shared(&r, line);
            if (inside && pass == 1 && line.find(".shared") != 0) read_line(&r, line);
            inside = inside || line == "{";
        }
        e->shared_static = (r.shared_end + 15) / 16 * 16;
        if (!r.dynamic.empty()) r.variables[r.dynamic] = e->shared_static;
    }
    resolve(&r);
    e->parsed = true;
}

} // namespace ptx
