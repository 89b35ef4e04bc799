// core/metrics/regex.h -- patterns of the suites, which Python's re module matches.
#ifndef CORE_METRICS_REGEX_H
#define CORE_METRICS_REGEX_H

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

// Compiles a pattern of ours: \d, \w and \s are Unicode's, and the text need not be valid UTF-8.
// The caller frees it by pcre2_code_free.
pcre2_code *regex_compile(const char *pattern);

#endif
