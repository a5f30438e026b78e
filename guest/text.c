/* Percent-encoding, as on the config disk, and base64 for the data of sessions. */
#include "mote.h"
#include <stdio.h>
#include <string.h>

void decode(char *text) {
  char *to = text;
  for (char *from = text; *from; from++) {
    if (from[0] == '%' && from[1] && from[2]) {
      char hex[3] = {from[1], from[2], 0};
      *to++ = (char)strtol(hex, NULL, 16);
      from += 2;
    } else *to++ = *from;
  }
  *to = 0;
}

/* `to` needs room for three bytes per input byte. */
void encode(char *to, const char *from, size_t length) {
  for (size_t i = 0; i < length; i++) {
    unsigned char byte = (unsigned char)from[i];
    if (byte > ' ' && byte < 127 && byte != '%') *to++ = (char)byte;
    else to += sprintf(to, "%%%02x", byte);
  }
  *to = 0;
}

static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/* `to` needs room for four characters per three input bytes, and a zero. */
void base64_encode(char *to, const char *from, size_t length) {
  for (size_t i = 0; i < length; i += 3) {
    uint32_t three = (uint32_t)(unsigned char)from[i] << 16;
    if (i + 1 < length) three |= (uint32_t)(unsigned char)from[i + 1] << 8;
    if (i + 2 < length) three |= (unsigned char)from[i + 2];
    *to++ = digits[three >> 18], *to++ = digits[three >> 12 & 63];
    *to++ = i + 1 < length ? digits[three >> 6 & 63] : '=';
    *to++ = i + 2 < length ? digits[three & 63] : '=';
  }
  *to = 0;
}

/* Decodes in place, and returns the number of bytes; -1 if the text is not base64. */
ssize_t base64_decode(char *text) {
  static signed char values[256];
  if (!values['/']) {
    memset(values, -1, sizeof values);
    for (signed char i = 0; i < 64; i++) values[(unsigned char)digits[i]] = i;
  }
  char *to = text;
  uint32_t bits = 0;
  int held = 0;
  for (const char *from = text; *from && *from != '='; from++) {
    signed char value = values[(unsigned char)*from];
    if (value < 0) return -1;
    bits = bits << 6 | (uint32_t)value, held += 6;
    if (held >= 8) held -= 8, *to++ = (char)(bits >> held & 255);
  }
  return to - text;
}
