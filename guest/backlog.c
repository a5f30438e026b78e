/* The retained output of a session: a ring whose bytes are numbered from the start of the process. */
#include "mote.h"
#include <string.h>

/* Bytes that fit without overwriting output that the host has not acknowledged. */
size_t backlog_room(const struct backlog *backlog, int held) {
  return held ? BACKLOG_MAX - (size_t)(backlog->tail - backlog->acked) : BACKLOG_MAX;
}

/* At most BACKLOG_MAX bytes. Overwrites the oldest ones. */
void backlog_put(struct backlog *backlog, const char *data, size_t length) {
  size_t at = backlog->tail % BACKLOG_MAX, first = BACKLOG_MAX - at < length ? BACKLOG_MAX - at : length;
  memcpy(backlog->ring + at, data, first);
  memcpy(backlog->ring, data + first, length - first);
  backlog->tail += length;
  if (backlog->tail - backlog->oldest > BACKLOG_MAX) backlog->oldest = backlog->tail - BACKLOG_MAX;
}

/* Copies the next bytes that the host's window admits, and returns their number. */
size_t backlog_next(const struct backlog *backlog, uint64_t window, char *to, size_t most) {
  uint64_t limit = backlog->acked + window < backlog->tail ? backlog->acked + window : backlog->tail;
  size_t length = limit > backlog->sent ? (size_t)(limit - backlog->sent) : 0;
  if (length > most) length = most;
  size_t at = backlog->sent % BACKLOG_MAX, first = BACKLOG_MAX - at < length ? BACKLOG_MAX - at : length;
  memcpy(to, backlog->ring + at, first);
  memcpy(to + first, backlog->ring, length - first);
  return length;
}

/* Sends from this offset, or from the oldest retained byte. Returns -1 for an offset that does not exist yet. */
int backlog_seek(struct backlog *backlog, uint64_t from) {
  if (from > backlog->tail) return -1;
  backlog->sent = backlog->acked = from < backlog->oldest ? backlog->oldest : from;
  return 0;
}

void backlog_ack(struct backlog *backlog, uint64_t until) {
  if (until > backlog->acked && until <= backlog->sent) backlog->acked = until;
}
