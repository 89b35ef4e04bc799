// core/metrics/regex.h -- compiles the suites' patterns, which are written for Python's re module.
#ifndef CORE_METRICS_REGEX_H
#define CORE_METRICS_REGEX_H

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

// Compiles a constant pattern: \d, \w and \s are Unicode's, and the text need not be valid UTF-8.
// The caller frees the result with pcre2_code_free.
pcre2_code *regex_compile(const char *pattern);
// Compiles a constant pattern with PCRE2's options.
pcre2_code *regex_compile_as(const char *pattern, uint32_t options);
// The caller frees the result with pcre2_match_data_free.
pcre2_match_data *regex_match_data(const pcre2_code *re);

#endif
