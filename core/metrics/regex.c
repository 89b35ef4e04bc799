// core/metrics/regex.c -- compiles the patterns of the suites.
#include "core/metrics/regex.h"

#include "core/base/err.h"

pcre2_code *regex_compile(const char *pattern)
{
    int code;
    PCRE2_SIZE offset;
    pcre2_code *re =
        pcre2_compile((PCRE2_SPTR)pattern, PCRE2_ZERO_TERMINATED,
                      PCRE2_UTF | PCRE2_UCP | PCRE2_MATCH_INVALID_UTF, &code, &offset, NULL);
    if (!re) BUG("'%s' at %zu", pattern, offset);
    return re;
}
