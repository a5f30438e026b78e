/* Moves bytes between the processes of sessions and the control port. */
#include "mote.h"
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { CHUNK = 24576, READS = 4, READ_MAX = 1 << 17, HEADER_MAX = 128, END_OF_TRANSMISSION = 4 };

static void close_output(struct session *session, int which) {
  close(session->fds[which]);
  session->fds[which] = -1;
  if (session->tty) session_close_input(session);
}

/* Reads at most READS times, so that a busy process cannot starve the others. Returns whether more may be available. */
static int fill(struct session *session, int which) {
  struct backlog *backlog = &session->out[which];
  for (int turn = 0; session->fds[which] >= 0; turn++) {
    if (!backlog_room(backlog, session->held) && *session->attach && session->records) backlog_grow(backlog, session->window);
    size_t space;
    char *to = backlog_space(backlog, session->held, &space);
    if (space == 0) return 0;
    if (turn == READS) return 1;
    ssize_t n = read(session->fds[which], to, space < READ_MAX ? space : READ_MAX);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && errno == EAGAIN && session->pid) return 0;
    if (n > 0) backlog_add(backlog, (size_t)n);
    else close_output(session, which); /* end of file, or everything that the ended process left */
  }
  return 0;
}

/* Sends one record if the host's window and the port have room. Returns whether it did. */
static int send_record(struct session *session, int which) {
  static char list[RECORD_MAX];
  struct backlog *backlog = &session->out[which];
  if (control_room() < RECORD_MAX + HEADER_MAX + CONTROL_RESERVE) return 0;
  char *line = control_space(RECORD_MAX + HEADER_MAX), lengths[16];
  int start = snprintf(line, HEADER_MAX, "%s %c %" PRIu64 " ", session->attach, which ? 'E' : 'O', backlog->sent);
  char *data = line + start + 12;
  size_t length = backlog_next(backlog, session->window, data, RECORD_MAX);
  if (!length) return 0;
  size_t size = record_encode(data, &length, list, RECORD_MAX);
  snprintf(lengths, sizeof lengths, "%05zu %05zu ", length, size);
  memcpy(line + start, lengths, 12);
  memcpy(data + length, list, size);
  data[length + size] = '\n';
  backlog->sent += length;
  control_add((size_t)(data - line) + length + size + 1);
  return 1;
}

/* Sends one chunk if the host's window and the port have room. Returns whether it did. */
static int send_chunk(struct session *session, int which) {
  char chunk[CHUNK], encoded[CHUNK / 3 * 4 + 1];
  struct backlog *backlog = &session->out[which];
  if (!*session->attach) return 0;
  if (session->records) return send_record(session, which);
  if (control_room() < sizeof encoded + CONTROL_RESERVE) return 0;
  size_t length = backlog_next(backlog, session->window, chunk, sizeof chunk);
  if (!length) return 0;
  base64_encode(encoded, chunk, length);
  control_say("%s %s %" PRIu64 " %s\n", session->attach, which ? "e" : "o", backlog->sent, encoded);
  backlog->sent += length;
  return 1;
}

/* Returns -1 if the process reads no more. */
static int write_pending(struct session *session) {
  while (session->pending_from < session->pending_to) {
    const char *from = session->pending + session->pending_from;
    ssize_t n = write(session->input, from, session->pending_to - session->pending_from);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && errno == EAGAIN) return 0;
    if (n < 0) return -1;
    session->pending_from += (size_t)n;
  }
  session->pending_from = session->pending_to = 0;
  return 0;
}

static void write_input(struct session *session) {
  if (session->input < 0) return;
  if (write_pending(session) < 0) {
    session_close_input(session);
    return;
  }
  size_t pending = session->pending_to - session->pending_from;
  /* There is room for the largest requests, so the next ones can be on their way while the process reads. */
  for (int i = 0; pending <= SESSION_INPUT_MAX / 2 && i < WRITING_MAX && *session->writing[i]; i++) {
    control_say("%s ok %" PRIu64 "\n", session->writing[i], session->input_total);
    *session->writing[i] = 0;
  }
  if (pending || !session->closing) return;
  char end = END_OF_TRANSMISSION;
  if (session->tty && write(session->input, &end, 1) < 0 && errno == EAGAIN) return;
  session_close_input(session);
}

static void report_end(struct session *session) {
  int open = session->pid || session->fds[0] >= 0 || session->fds[1] >= 0;
  if (open || !*session->attach || session->out[0].sent < session->out[0].tail ||
      session->out[1].sent < session->out[1].tail)
    return;
  control_say("%s ok %s %d %" PRIu64 " %" PRIu64 "\n", session->attach, session->signaled ? "signaled" : "exited",
              session->code, session->out[0].tail, session->out[1].tail);
  *session->attach = *session->token = 0;
}

/* Sends one chunk of each session in turn. Returns whether it must be called again without waiting for an event. */
int session_pump(void) {
  static int first;
  int more = 0, sent = 1;
  for (struct session *session = sessions; session < sessions + SESSIONS_MAX; session++) {
    if (!session->used) continue;
    write_input(session);
    more |= fill(session, 0);
    more |= fill(session, 1);
  }
  while (sent) {
    sent = 0;
    for (int i = 0; i < SESSIONS_MAX; i++) {
      struct session *session = &sessions[(first + i) % SESSIONS_MAX];
      if (session->used) sent |= send_chunk(session, 0) | send_chunk(session, 1);
    }
    first = (first + 1) % SESSIONS_MAX;
  }
  for (struct session *session = sessions; session < sessions + SESSIONS_MAX; session++)
    if (session->used) report_end(session);
  return more;
}
