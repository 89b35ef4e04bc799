// core/model/families/list.h -- X(NAME): core/model/families/NAME.c defines `const struct family
// family_NAME`.
X(llava)
X(llama)
X(qwen2)
