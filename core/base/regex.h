// core/base/regex.h -- compiles constant patterns; ends the program if there is no memory for one.
#ifndef CORE_BASE_REGEX_H
#define CORE_BASE_REGEX_H

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

// Compiles a pattern as Python's re module does: \d, \w and \s are Unicode's, and the text need not
// be valid UTF-8. The caller frees the result with pcre2_code_free.
pcre2_code *regex_compile(const char *pattern);
// Compiles a pattern with PCRE2's options.
pcre2_code *regex_compile_as(const char *pattern, uint32_t options);
// The caller frees the result with pcre2_match_data_free.
pcre2_match_data *regex_match_data(const pcre2_code *re);

#endif
