// commands/list.h -- X(NAME): commands/NAME.c defines `const struct command command_NAME`. Help and
// completion show them in this order.
