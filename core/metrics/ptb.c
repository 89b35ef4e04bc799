// core/metrics/ptb.c -- the Penn Treebank tokens of English text, as Stanford's PTBTokenizer 3.4.1
// (with -preserveLines -lowerCase) makes them for pycocoevalcap.
//
// At each position the rule with the longest match wins, or the first of several. The text that
// must follow a token (`after`) counts towards that length. Literals ignore case, character classes
// do not. "(" becomes -LRB- and then -lrb-; pycocoevalcap drops only -LRB-, so -lrb- stays a word.
//
// Unlike Stanford's, a token and the text that must follow it have at most LONGEST bytes, so a
// longer run of letters is divided: some patterns would read the rest of a long text at every
// position.
//
// pycocoevalcap tokenizes all captions as one text, with one caption per line. Here, a line break
// follows each caption: a caption that ends in "plan B." keeps "b." even if the next one begins
// with "A".
#include "core/metrics/ptb.h"

#include <pthread.h>
#include <string.h>

#include "core/base/err.h"
#include "core/base/regex.h"
#include "core/base/scratch.h"
#include "core/metrics/python.h"

// --- the grammar ---------------------------------------------------------------------------------

#define DIGIT     "\\p{Nd}"
#define ALNUM     "[\\p{L}\\p{Nd}]"
#define SPACE     "[ \\t\\xA0\\x{2000}-\\x{200A}\\x{3000}]"
#define SPACE_NL  "(?:" SPACE "|\\r?\\n|[\\r\\x{2028}\\x{2029}\\x0B\\x0C\\x85])"
#define APOS      "(?:['\\x92\\x{2019}]|(?i:&apos;))"
#define APOS_LIKE "(?:" APOS "|[`\\x91\\x{2018}\\x{201B}])"
#define LETTER                                                                         \
    "(?:[\\p{L}\\p{Mn}\\p{Mc}\\xAD\\x{2C2}-\\x{2C5}\\x{2D2}-\\x{2DF}\\x{2E5}-\\x{2FF}" \
    "\\x{375}\\x{384}\\x{385}\\x{3F6}\\x{55A}-\\x{55F}]|&[aeiouAEIOU](?i:acute|grave|uml);)"
#define WORD      LETTER "(?:" LETTER "|" DIGIT ")*(?:[.!?]" LETTER "(?:" LETTER "|" DIGIT ")*)*"
#define HYPHEN    "[-_\\x{58A}\\x{2010}\\x{2011}]"
#define IN_CLAUSE "[,;:\\x{3001}]"
#define TAG_NAME  "[A-Za-z][A-Za-z0-9_:.-]*"
#define SGML                                                                  \
    "<(?:[!?][A-Za-z-][^>\\r\\n]*|" TAG_NAME "(?: +(?:" TAG_NAME "|" TAG_NAME \
    " *= *(?:'[^']*'|\"[^\"]*\")))* */?|/" TAG_NAME ") *>"
#define CONTRACTED APOS "(?:[msdMSD]|(?i:re|ve|ll))"
#define NOT        "(?i:n)" APOS_LIKE "(?i:t)"
#define US \
    "(?i:Canada|Sino|Korean|EU|Japan|non)-(?i:U)\\.(?i:S)|(?i:U\\.S\\.-(?:U\\.K|U\\.S\\.S\\.R))"
#define ACRONYM    "(?:[A-Za-z](?:\\.[A-Za-z])*|" US ")"
#define ACRONYM2   "(?:[A-Za-z](?:\\.[A-Za-z])+|" US ")"
#define NAME_PART  "(?:[dDoOlL]" APOS_LIKE ALNUM ")?" ALNUM "+"
#define THING      NAME_PART "(?:" HYPHEN NAME_PART ")*"
#define AMPERSANDS "[A-Z]+(?:(?:[+&]|(?i:&amp;))[A-Z]+)+"
#define HYPHENATED "[A-Za-z0-9][A-Za-z0-9.,\\xAD]*(?:-(?:[A-Za-z0-9\\xAD]+|" ACRONYM2 "\\.))+"
#define SLASHED    "[A-Za-z0-9]+(?:-[A-Za-z]+){0,2}"
// Abbreviations, then titles and acronyms.
#define ABBREVIATION                                                                           \
    "(?:(?i:Jan|Feb|Mar|Apr|Jun|Jul|Aug|Sept?|Oct|Nov|Dec|Mon|Tues?|Wed|Thu|Thurs|Fri)"        \
    "|(?i:Ala|Ariz|Calif|Colo|Conn|Ct|Dak|Fla|Ga|Ind|Kans?|Ky|Md|Mich|Minn|Mo|Mont|Neb|Nev)"   \
    "|(?i:Okla|Penn|Tenn|Va|Vt|Wisc?|Wyo)|A(?i:z)|A(?i:rk)|D(?i:el)|I(?i:ll)|L(?i:a)"          \
    "|M(?i:ass)|M(?i:iss)|O(?i:re)|P(?i:a)|T(?i:ex)|W(?i:ash)"                                 \
    "|(?i:Inc|Cos?|Corp)|(?i:P)(?i:p)?(?i:t)[ye](?i:s)?|(?i:Ltd|Plc|Rt|Bancorp|Bhd|Assn|Univ)" \
    "|(?i:Intl|Sys|tel|est|ext|sq|Jr|Sr|Bros|(?:Ed|Ph)\\.D|Blvd|Rd|Esq|etc|al|seq|Bldg))\\."
#define TITLE                                                                                  \
    "(?:(?i:Mr|Mrs|Ms|Drs?|Profs?|Sens?|Reps?|Attys?|Lt|Col|Gen|Messrs|Govs?|Adm|Rev|Maj|Sgt)" \
    "|(?i:Cpl|Pvt|Capt|Ste?|Ave|Pres|Lieut|Hon|Brig|Co?mdr|Pfc|Spc|Supts?|Det|Mt|Ft|Adj|Adv)"  \
    "|(?i:Asst|Assoc|Ens|Insp|Mlle|Mme|Msgr|Sfc)|M(?i:iss)|(?i:vs|Alex|Wm|Jos|Cie|a\\.k\\.a)"  \
    "|(?i:cf|TREAS|Ph|Invt|Elec|Natl|Dept)|(?i:M)[ft](?i:g)|" ACRONYM ")"
// Capitalised words that begin a sentence after an acronym's full stop.
#define BEGINS                                                                                   \
    "(?:A(?i:bout|ccording|dditionally|fter|n|s|t)?|B(?i:ut)|E(?i:arlier)|H(?i:e|er|ere|owever)" \
    "|I(?i:f|n|t)|L(?i:ast)|M(?i:any|ore|r\\.|s\\.)|N(?i:ow)|O(?i:nce|ne|ther|ur)"               \
    "|S(?i:he|ince|o|ome|uch)|T(?i:hat|he|heir|hen|here|hese|hey|his)|W(?i:e|hen|hile|hat)"      \
    "|Y(?i:et|ou)|" SGML ")"
#define NOT_URL  " \\t\\n\\f\\r\"<>|(){}"
#define URL_PATH "/[^ \\t\\n\\f\\r\"<>|()]+[^ \\t\\n\\f\\r\"<>|.!?(){},-]"

enum action {
    KEEP,
    PLAIN,   // without soft hyphens
    LEFT,    // quotes become ` and ``
    RIGHT,   // quotes become ' and ''
    INITIAL, // "I." before the beginning of a sentence becomes the letter alone
    HYPHENS,
    FRACTION,
    CURRENCY,
    BRACKETS, // brackets become -LRB- etc.
    SKIP,
};

static const struct rule {
    const char *pattern, *after; // after "": anything
    enum action action;
    int back;          // characters at the match's end that are left for the next token
    const char *token; // replaces the matched text; NULL: the text stays
} rules[] = {
    { "(?i:c)\\+\\+", "", KEEP, 0, NULL },
    { "(?i:c|f)#", "", KEEP, 0, NULL },
    { "(?i:cannot|'twas)", "", KEEP, 3, NULL },
    { "(?i:'tis|gonna|gotta|lemme|gimme|wanna)", "", KEEP, 2, NULL },
    { SGML, "", KEEP, 0, NULL },
    { "(?i:&(?:MD|mdash|ndash);)|[\\x96\\x97\\x{2013}-\\x{2015}]", "", KEEP, 0, "--" },
    { "(?i:&amp;)", "", KEEP, 0, "&" },
    { "(?i:&(?:HT|TL|UR|LR|QC|QL|QR|odq|cdq));|&#[0-9]+;", "", KEEP, 0, NULL },
    { WORD, CONTRACTED, PLAIN, 0, NULL },
    { "[A-Za-z\\xAD]*[A-MO-Za-mo-z]\\xAD*", NOT, PLAIN, 0, NULL },
    { WORD, "", PLAIN, 0, NULL },
    { APOS "(?i:n)" APOS "?|[lLdDjJ]" APOS "|(?i:Dunkin|somethin|ol)" APOS "|" APOS
           "(?i:em)|[A-HJ-XZn]" APOS_LIKE "\\p{L}{2,}|" APOS "[2-9](?i:0s)|" APOS
           "(?i:till?)|\\p{L}+[aeiouyAEIOUY]" APOS_LIKE "[aeiouA-Z]\\p{L}*|" APOS
           "(?i:cause)|(?i:cont'd\\.?|'twas|nor'easter|c'mon|e'er|s'mores|ev'ry|li'l|nat'l)"
           "|(?i:O)" APOS_LIKE "(?i:o)",
      "", KEEP, 0, NULL },
    { "(?i:y)" APOS, "\\p{L}", KEEP, 0, NULL },
    { "(?i:https?)://[^" NOT_URL "]+[^ \\t\\n\\f\\r\"<>|.!?(){},-]", "", KEEP, 0, NULL },
    { "(?:(?i:www)\\.(?:[^ \\t\\n\\f\\r\"<>|.!?(){},]+\\.)+[a-zA-Z]{2,4}|(?:[^ "
      "\\t\\n\\f\\r\"`'<>|.!?(){},-_$]+\\.)+(?i:com|net|org|edu))(?:" URL_PATH ")?",
      "", KEEP, 0, NULL },
    { "(?:(?i:&lt;)|<)?[a-zA-Z0-9][^ \\t\\n\\f\\r\"<>|()\\xA0{}]*@(?:[^ "
      "\\t\\n\\f\\r\"<>|(){}.\\xA0]+\\.)*[^ \\t\\n\\f\\r\"<>|(){}.\\xA0]+(?:(?i:&gt;)|>)?",
      "", KEEP, 0, NULL },
    { "@[a-zA-Z_][a-zA-Z_0-9]*|#" LETTER "+", "", KEEP, 0, NULL },
    { CONTRACTED, "[^A-Za-z]", RIGHT, 0, NULL },
    { NOT, "[^A-Za-z]", RIGHT, 0, NULL },
    { DIGIT "{1,2}[-/]" DIGIT "{1,2}[-/]" DIGIT "{2,4}", "", KEEP, 0, NULL },
    { "[-+]?(?:" DIGIT "+|" DIGIT "*(?:[.:,\\xAD\\x{66B}\\x{66C}]" DIGIT "+)+)", "", PLAIN, 0,
      NULL },
    { "[\\x{207A}\\x{207B}\\x{208A}\\x{208B}]?(?:[\\x{2070}\\xB9\\xB2\\xB3\\x{2074}-\\x{2079}]+|"
      "[\\x{2080}-\\x{2089}]+)",
      "", KEEP, 0, NULL },
    { "(?:" DIGIT "{1,4}[- \\xA0])?" DIGIT "{1,4}(?:\\\\?/|\\x{2044})" DIGIT "{1,4}", "", KEEP, 0,
      NULL },
    { "[\\xBC\\xBD\\xBE\\x{2153}-\\x{215E}]", "", FRACTION, 0, NULL },
    { "-(?i:RRB|LRB|RCB|LCB|RSB|LSB)-|(?i:C\\.D\\.s|pro-|anti-|S(?:&|&amp;)P-500|S(?:&|&amp;)Ls)|"
      "(?i:Cap)" APOS "(?i:n)|(?i:c)" APOS "(?i:est)",
      "", KEEP, 0, NULL },
    { SLASHED "(?:\\\\?/" SLASHED "){1,2}", "", KEEP, 0, NULL },
    { "[A-Z]*\\$|#", "", KEEP, 0, NULL },
    { "[\\xA2-\\xA5\\x80\\x{20A0}\\x{20AC}\\x{60B}\\x{E3F}\\x{20A4}\\x{FFE0}\\x{FFE1}\\x{FFE5}"
      "\\x{FFE6}]",
      "", CURRENCY, 0, NULL },
    { ACRONYM "\\.", SPACE_NL "+" BEGINS SPACE_NL, INITIAL, 0, NULL },
    { "(?i:ca|figs?|prop|nos?|art|bldg|pp|op)\\.", SPACE_NL "?" DIGIT, KEEP, 0, NULL },
    { "(?:(?i:pt)[eyEY]|(?i:co))\\.", SPACE "(?i:ltd|lim)", KEEP, 0, NULL },
    { ABBREVIATION, "(?s:..)", KEEP, 0, NULL },
    { ABBREVIATION, "", KEEP, 0, NULL },
    { TITLE "\\.", "", KEEP, 0, NULL },
    { TITLE, SPACE, KEEP, 0, NULL },
    { ACRONYM, SPACE_NL, KEEP, 0, NULL },
    { APOS "[0-9][0-9]", SPACE_NL, KEEP, 0, NULL },
    { "(?:" LETTER "|" DIGIT ")+(?:[.](?:" LETTER "|" DIGIT ")+)*[.](?i:bat|bmp|c|class|cgi|cpp|"
      "dll|doc|docx|exe|gif|gz|h|htm|html|jar|java|jpeg|jpg|mov|mp3|pdf|php|pl|png|ppt|ps|py|sql|"
      "tar|txt|wav|x|xml|zip)",
      "(?:" SPACE_NL "|[.?!,])", KEEP, 0, NULL },
    { "(?:" WORD ")\\.", IN_CLAUSE, PLAIN, 0, NULL },
    { "(?:\\([0-9]{2,3}\\)[ \\xA0]?|(?:\\+\\+?)?(?:[0-9]{2,4}[- \\xA0])?[0-9]{2,4}[- \\xA0])[0-9]"
      "{3,4}[- \\xA0]?[0-9]{3,5}|(?:(?:\\+\\+?)?[0-9]{2,4}\\.)?[0-9]{2,4}\\.[0-9]{3,4}\\.[0-9]{3,"
      "5}",
      "", BRACKETS, 0, NULL },
    { "(?:\"|(?i:&quot;))", "[A-Za-z0-9$]", LEFT, 0, NULL },
    { "(?:\"|(?i:&quot;))", "", RIGHT, 0, NULL },
    { "<|(?i:&lt;)", "", KEEP, 0, "<" },
    { ">|(?i:&gt;)", "", KEEP, 0, ">" },
    { "[<>]?[:;=][-o*']?[()DPdpO\\\\{@|\\[\\]]", "[^A-Za-z0-9]", BRACKETS, 0, NULL },
    { "[\\^x=~<>]\\.\\[\\^x=~<>]|[-\\^x=~<>']_[-\\^x=~<>']|\\([-\\^x=~<>'][_.]?[-\\^x=~<>']\\)|\\(["
      "\\^x=~<>']-[\\^x=~<>'`]\\)",
      "", BRACKETS, 0, NULL },
    { "\\{", "", KEEP, 0, "-LCB-" },
    { "\\}", "", KEEP, 0, "-RCB-" },
    { "\\[", "", KEEP, 0, "-LSB-" },
    { "\\]", "", KEEP, 0, "-RSB-" },
    { "\\(", "", KEEP, 0, "-LRB-" },
    { "\\)", "", KEEP, 0, "-RRB-" },
    { "-+", "", HYPHENS, 0, NULL },
    { "\\.{3,5}|(?:\\.[ \\xA0]){2,4}\\.|[\\x85\\x{2026}]", "", KEEP, 0, "..." },
    { "@+|#+|_+|\\*+|(?:\\\\\\*){1,3}", "", KEEP, 0, NULL },
    { IN_CLAUSE "|[?!]+|[.\\xA1\\xBF\\x{37E}\\x{589}\\x{61F}\\x{6D4}\\x{700}-\\x{702}\\x{7FA}"
                "\\x{3002}]|=|/",
      "", KEEP, 0, NULL },
    { "(?:" HYPHENATED ")\\.", IN_CLAUSE, PLAIN, 0, NULL },
    { HYPHENATED, "", PLAIN, 0, NULL },
    { "(?:" THING ")\\.", IN_CLAUSE, KEEP, 0, NULL },
    { THING, "", KEEP, 0, NULL },
    { "(?:" AMPERSANDS ")\\.", IN_CLAUSE, KEEP, 0, NULL },
    { AMPERSANDS, "", KEEP, 0, NULL },
    { "'", "[A-Za-z][^ \\t\\n\\r\\xA0]", LEFT, 0, NULL },
    { CONTRACTED "|" NOT "|" APOS "|''|[`\\x{2018}-\\x{201F}\\x91-\\x94\\x{2039}\\x{203A}\\xAB"
                 "\\xBB]{1,2}",
      "", RIGHT, 0, NULL },
    { "<<|>>", "", KEEP, 0, NULL },
    { "[+%&~\\^|\\\\\\xA6-\\xA9\\xAC\\xAE-\\xBA\\xD7\\xF7\\x{387}\\x{5BE}\\x{5C0}\\x{5C3}\\x{5C6}"
      "\\x{5F3}\\x{5F4}\\x{600}-\\x{603}\\x{606}-\\x{60A}\\x{60C}\\x{614}\\x{61B}\\x{61E}\\x{66A}"
      "\\x{66D}\\x{703}-\\x{70D}\\x{7F6}-\\x{7F8}\\x{964}\\x{965}\\x{E4F}\\x{1FBD}\\x{2016}\\x{"
      "2017}"
      "\\x{2020}-\\x{2023}\\x{2030}-\\x{2038}\\x{203B}\\x{203E}-\\x{2042}\\x{2044}\\x{207A}-\\x{"
      "207F}"
      "\\x{208A}-\\x{208E}\\x{2100}-\\x{214F}\\x{2190}-\\x{2BFF}\\x{3012}\\x{30FB}\\x{FF01}-\\x{"
      "FF0F}"
      "\\x{FF1A}-\\x{FF20}\\x{FF3B}-\\x{FF40}\\x{FF5B}-\\x{FF65}]",
      "", KEEP, 0, NULL },
    { "(?i:&nbsp;)", "", SKIP, 0, NULL },
    { "(?s:.)", "", SKIP, 0, NULL }, // white space and unknown characters
};

enum { RULES = sizeof rules / sizeof *rules, LENGTHS = 64, WORKSPACE = 4096, LONGEST = 1000 };

static struct {
    pcre2_code *pattern, *after;
} compiled[RULES];
static pthread_once_t once = PTHREAD_ONCE_INIT;

static pcre2_code *compile(const char *pattern)
{
    return regex_compile_as(pattern, PCRE2_UTF | PCRE2_ANCHORED);
}

static void compile_all(void)
{
    for (int i = 0; i < RULES; i++) {
        compiled[i].pattern = compile(rules[i].pattern);
        if (*rules[i].after) compiled[i].after = compile(rules[i].after);
    }
}

// --- matching ------------------------------------------------------------------------------------

struct matcher {
    pcre2_match_data *data;
    int workspace[WORKSPACE];
};

// Writes the lengths of all matches at `at`, the longest first; returns their number.
static int match_lengths(struct matcher *m, const pcre2_code *re, const char *text, size_t size,
                         size_t at, size_t lengths[LENGTHS])
{
    int n = pcre2_dfa_match(re, (PCRE2_SPTR)text, size, at, PCRE2_NO_UTF_CHECK, m->data, NULL,
                            m->workspace, WORKSPACE);
    if (n == 0) n = LENGTHS; // there are more matches than fit
    const PCRE2_SIZE *found = pcre2_get_ovector_pointer(m->data);
    for (int i = 0; i < n; i++) lengths[i] = found[2 * i + 1] - at;
    return n < 0 ? 0 : n;
}

// Finds the rule whose match at `at`, together with the text that must follow, is longest, and sets
// *length to the length of its token.
static const struct rule *find_rule(struct matcher *m, const char *text, size_t size, size_t at,
                                    size_t *length)
{
    const struct rule *best = NULL;
    size_t longest = 0, tokens[LENGTHS], rest[LENGTHS];
    if (size - at > LONGEST)
        for (size = at + LONGEST; ((unsigned char)text[size] & 0xC0) == 0x80;) size--;
    for (int i = 0; i < RULES; i++) {
        const int n = match_lengths(m, compiled[i].pattern, text, size, at, tokens);
        for (int k = 0; k < n; k++) {
            const bool alone = !*rules[i].after;
            if (!alone && !match_lengths(m, compiled[i].after, text, size, at + tokens[k], rest))
                continue;
            const size_t whole = tokens[k] + (alone ? 0 : rest[0]);
            if (whole <= longest) continue;
            longest = whole;
            *length = tokens[k];
            best = &rules[i];
        }
    }
    return best;
}

// --- tokens --------------------------------------------------------------------------------------

struct change {
    const char *from, *to;
};

static char *apply(struct scratch *s, const char *token, const struct change *changes, size_t count)
{
    char *text = scratch_dup(s, token, strlen(token));
    for (size_t i = 0; i < count; i++)
        text = python_replace(s, text, changes[i].from, changes[i].to);
    return text;
}

static const struct change double_quotes[] = {
    { "\xC2\x91", "`" },     { "\xE2\x80\x98", "`" }, { "\xE2\x80\x9B", "`" },
    { "\xE2\x80\xB9", "`" }, { "\xC2\x92", "'" },     { "\xE2\x80\x99", "'" },
    { "\xE2\x80\xBA", "'" }, { "\xC2\x93", "``" },    { "\xE2\x80\x9C", "``" },
    { "\xC2\xAB", "``" },    { "\xC2\x94", "''" },    { "\xE2\x80\x9D", "''" },
    { "\xC2\xBB", "''" },
};
static const struct change fractions[] = {
    { "\xC2\xBC", "1/4" },     { "\xC2\xBD", "1/2" },     { "\xC2\xBE", "3/4" },
    { "\xE2\x85\x93", "1/3" }, { "\xE2\x85\x94", "2/3" },
};
static const struct change currencies[] = {
    { "\xC2\xA2", "cents" }, { "\xC2\xA3", "#" },     { "\xC2\x80", "$" },
    { "\xC2\xA4", "$" },     { "\xE2\x82\xA0", "$" }, { "\xE2\x82\xAC", "$" },
};
static const struct change brackets[] = { { "(", "-LRB-" }, { ")", "-RRB-" } };

#define APPLY(changes) apply(s, token, changes, sizeof(changes) / sizeof *(changes))

static char *change_quotes(struct scratch *s, const char *token, bool left)
{
    const struct change ascii[] = { { "&apos;", "'" },
                                    { "'", left ? "`" : "'" },
                                    { "&quot;", "\"" },
                                    { "\"", left ? "``" : "''" } };
    token = APPLY(ascii);
    return APPLY(double_quotes);
}

static char *change_token(struct scratch *s, const struct rule *r, char *token)
{
    const size_t n = strlen(token);
    if (r->token) return scratch_dup(s, r->token, strlen(r->token));
    switch (r->action) {
    case LEFT: return change_quotes(s, token, true);
    case RIGHT: return change_quotes(s, token, false);
    case FRACTION: return APPLY(fractions);
    case CURRENCY: return APPLY(currencies);
    case BRACKETS: return APPLY(brackets);
    case HYPHENS: return n == 3 || n == 4 ? scratch_dup(s, "--", 2) : token;
    case INITIAL:
        if (n == 2) token[1] = 0;
        return token;
    case PLAIN:
        token = python_replace(s, token, "\xC2\xAD", "");
        return *token ? token : scratch_dup(s, "-", 1);
    default: return python_replace(s, token, "&amp;", "&");
    }
}

// True for the tokens that pycocoevalcap drops.
static bool is_punctuation(const char *token)
{
    static const char *const marks[] = { "''", "'", "``", "`",  ".",   "?", "!",
                                         ",",  ":", "-",  "--", "...", ";" };
    for (size_t i = 0; i < sizeof marks / sizeof *marks; i++)
        if (!strcmp(token, marks[i])) return true;
    return false;
}

// Returns the length of a lower-case word before a space, which needs no rule; else 0.
static size_t plain_word(const char *p)
{
    static const char *const split[] = { "cannot", "gonna", "gotta", "lemme", "gimme", "wanna" };
    size_t n = 0;
    while (n < LONGEST && p[n] >= 'a' && p[n] <= 'z') n++;
    if (p[n] != ' ') return 0;
    for (size_t i = 0; i < sizeof split / sizeof *split; i++)
        if (strlen(split[i]) == n && !strncmp(p, split[i], n)) return 0;
    return n;
}

// Joins the lines of a text, and replaces bytes that are not UTF-8 with U+FFFD.
static const char *clean_line(struct scratch *s, const char *text)
{
    struct buf b = { 0 };
    size_t length;
    for (const char *p = text; *p; p += length) {
        const int32_t c = python_char(p, &length);
        python_put_char(&b, c < 0 ? 0xFFFD : c == '\n' ? ' ' : c);
    }
    buf_putc(&b, '\n');
    return scratch_take(s, &b);
}

char *ptb_words(struct scratch *s, const char *text)
{
    pthread_once(&once, compile_all);
    text = clean_line(s, text);
    const size_t size = strlen(text);
    struct matcher m = { .data = pcre2_match_data_create(LENGTHS, NULL) };
    if (!m.data) fatal("out of memory for a pattern");
    struct buf b = { 0 };
    for (size_t at = 0, length; at < size; at += length) {
        const struct rule *r = NULL;
        length = plain_word(text + at);
        if (!length && text[at] == ' ' && text[at + 1] != ' ')
            length = 1;
        else if (!length)
            r = find_rule(&m, text, size, at, &length);
        if (!r) {
            buf_add(&b, text + at, length);
            continue;
        }
        if (r->action == SKIP) continue;
        length -= (size_t)r->back;
        const char *token = change_token(s, r, scratch_dup(s, text + at, length));
        if (r->action == INITIAL && length == 2) length = 1;
        token = python_lower(s, token);
        if (!is_punctuation(token)) buf_printf(&b, " %s ", token);
    }
    pcre2_match_data_free(m.data);
    return python_words(s, scratch_take(s, &b));
}
