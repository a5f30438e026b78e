/* Percent-encoding, as on the config disk. */
#include "mote.h"
#include <stdio.h>

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
