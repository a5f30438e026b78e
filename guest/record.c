/*
 * Data within a line: newlines are replaced by spaces, and a list after the data has their positions. So a line that a host
 * or guest left incomplete ends with the next newline, as any other.
 *
 * The list has the number of bytes before each newline, counted from the previous one, in digits of six bits with the lowest
 * first: 0x40 plus the digit, and 0x80 if another digit follows.
 */
#include "mote.h"
#include <string.h>

/* Encodes in place, and shortens the data until it fits with its list into `most` bytes. Returns the length of the list. */
size_t record_encode(char *data, size_t *length, char *list, size_t most) {
  size_t used = 0;
  char *from = data;
  for (char *at; (at = memchr(from, '\n', *length - (size_t)(from - data))); from = at + 1) {
    size_t gap = (size_t)(at - from), digits = gap < 1 << 6 ? 1 : gap < 1 << 12 ? 2 : 3;
    if ((size_t)(at - data) + 1 + used + digits > most) {
      *length = (size_t)(at - data);
      break;
    }
    for (; digits > 1; digits--, gap >>= 6) list[used++] = (char)(0xc0 | (gap & 63));
    list[used++] = (char)(0x40 | gap);
    *at = ' ';
  }
  if (*length + used > most) *length = most - used;
  return used;
}

/* Decodes in place. Returns -1 if the list is not valid. */
int record_decode(char *data, size_t length, const char *list, size_t size) {
  size_t at = 0, gap = 0;
  int shift = 0;
  for (size_t i = 0; i < size; i++) {
    gap |= (size_t)(list[i] & 63) << shift, shift += 6;
    if (list[i] & 0x80 && shift < 18) continue;
    if (at + gap >= length) return -1;
    at += gap, data[at++] = '\n', gap = 0, shift = 0;
  }
  return shift ? -1 : 0;
}
