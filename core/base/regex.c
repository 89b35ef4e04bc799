// core/base/regex.c -- compiles constant patterns.
#include "core/base/regex.h"

#include "core/base/err.h"

pcre2_code *regex_compile_as(const char *pattern, uint32_t options)
{
    int code;
    PCRE2_SIZE offset;
    pcre2_code *re =
        pcre2_compile((PCRE2_SPTR)pattern, PCRE2_ZERO_TERMINATED, options, &code, &offset, NULL);
    if (!re && code == PCRE2_ERROR_HEAP_FAILED) fatal("out of memory for a pattern");
    if (!re) BUG("'%s' at %zu", pattern, offset);
    return re;
}

pcre2_code *regex_compile(const char *pattern)
{
    return regex_compile_as(pattern, PCRE2_UTF | PCRE2_UCP | PCRE2_MATCH_INVALID_UTF);
}

pcre2_match_data *regex_match_data(const pcre2_code *re)
{
    pcre2_match_data *match = pcre2_match_data_create_from_pattern(re, NULL);
    if (!match) fatal("out of memory for a pattern");
    return match;
}
