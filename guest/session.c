/* Commands of sessions. A session has a process with pipes or a terminal, and at most one attached host. */
#include "mote.h"
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

enum { PROTOCOL_VERSION = 1, RECORDS_VERSION = 1 };

struct session sessions[SESSIONS_MAX];

static struct session *find(const char *name) {
  for (struct session *session = sessions; session < sessions + SESSIONS_MAX; session++)
    if (session->used && !strcmp(session->id, name)) return session;
  return NULL;
}

static int ended(const struct session *session) {
  return !session->pid && session->fds[0] < 0 && session->fds[1] < 0;
}

/* Answers the attach request. The oldest output is overwritten from now on, and the process goes on. */
void session_detach(struct session *session, const char *why) {
  if (*session->attach) control_say("%s err %s\n", session->attach, why);
  *session->attach = *session->token = 0, session->held = 0;
}

/* `<token> <window> <out> <err>`: sends output from these offsets, and answers when the session has ended. */
static void attach(struct session *session, const char *id, const char *text, int records) {
  char token[40];
  uint64_t window, from[2];
  if (sscanf(text, "%39s %" SCNu64 " %" SCNu64 " %" SCNu64, token, &window, &from[0], &from[1]) < 4 || !window ||
      window > (records ? WINDOW_MAX : BACKLOG_MAX) || from[0] > session->out[0].tail || from[1] > session->out[1].tail) {
    control_say("%s err bad offset or window\n", id);
    return;
  }
  session_detach(session, "another client attached");
  for (int which = 0; which < 2; which++) backlog_seek(&session->out[which], from[which]);
  session->window = window, session->held = 1, session->records = records;
  snprintf(session->attach, sizeof session->attach, "%s", id);
  snprintf(session->token, sizeof session->token, "%s", token);
}

/* `<token> <out> <err>`: the host has processed the output before these offsets. */
static void ack(struct session *session, const char *text) {
  char token[40];
  uint64_t until[2];
  if (sscanf(text, "%39s %" SCNu64 " %" SCNu64, token, &until[0], &until[1]) < 3 || strcmp(token, session->token)) return;
  for (int which = 0; which < 2; which++) backlog_ack(&session->out[which], until[which]);
}

/* The request is answered when there is room for more. The oldest one that waits gives way. */
static void answer_later(struct session *session, const char *id) {
  int at = 0;
  while (at < WRITING_MAX && *session->writing[at]) at++;
  if (at == WRITING_MAX) {
    control_say("%s err another input request arrived\n", session->writing[0]);
    memmove(session->writing[0], session->writing[1], sizeof session->writing - sizeof *session->writing);
    at--;
  }
  snprintf(session->writing[at], sizeof *session->writing, "%s", id);
}

/*
 * Takes input at this offset, as far as there is room. Bytes before `input_total` arrived with an earlier request whose
 * answer was lost.
 */
static void take_input(struct session *session, const char *id, uint64_t offset, const char *data, ssize_t length) {
  if (session->input < 0 || session->closing) control_say("%s err the input is closed\n", id);
  else if (length < 0 || offset > session->input_total) control_say("%s err bad input\n", id);
  else {
    uint64_t known = session->input_total - offset;
    size_t fresh = (uint64_t)length > known ? (size_t)length - (size_t)known : 0;
    size_t room = SESSION_INPUT_MAX - (session->pending_to - session->pending_from);
    if (fresh > room) length -= (ssize_t)(fresh - room), fresh = room;
    if (fresh > SESSION_INPUT_MAX - session->pending_to) {
      memmove(session->pending, session->pending + session->pending_from, session->pending_to - session->pending_from);
      session->pending_to -= session->pending_from, session->pending_from = 0;
    }
    memcpy(session->pending + session->pending_to, data + ((size_t)length - fresh), fresh);
    session->pending_to += fresh, session->input_total += fresh;
    answer_later(session, id);
  }
}

/* `<offset> <base64>`: answers `ok <total>` when there is room for the next request. */
static void input(struct session *session, const char *id, char *text) {
  char *data = NULL;
  uint64_t offset = strtoull(text, &data, 10);
  ssize_t length = *data == ' ' ? base64_decode(++data) : -1;
  take_input(session, id, offset, data, length);
}

/* `<offset> <length> <length of the list> <data><list>`: answers as `session.input`. Several may wait for their answers. */
static void put(struct session *session, const char *id, char *text) {
  char *at = text;
  uint64_t offset = strtoull(at, &at, 10), length = strtoull(at, &at, 10), size = strtoull(at, &at, 10);
  int valid = *at++ == ' ' && length <= RECORD_MAX && size <= RECORD_MAX && line_end - at == (ssize_t)(length + size);
  if (valid && record_decode(at, length, at + length, size) < 0) valid = 0;
  take_input(session, id, offset, at, valid ? (ssize_t)length : -1);
}

void session_close_input(struct session *session) {
  if (session->input >= 0 && !session->tty) close(session->input);
  session->input = -1;
  session->pending_from = session->pending_to = 0;
  for (int i = 0; i < WRITING_MAX && *session->writing[i]; i++) {
    control_say("%s err the input is closed\n", session->writing[i]);
    *session->writing[i] = 0;
  }
}

static void resize(const struct session *session, const char *id, const char *text) {
  struct winsize size = {0};
  if (!session->tty || sscanf(text, "%hu %hu", &size.ws_row, &size.ws_col) < 2) control_say("%s err no terminal\n", id);
  else if (session->fds[0] < 0 || ioctl(session->fds[0], TIOCSWINSZ, &size) < 0) control_say("%s err it has ended\n", id);
  else control_say("%s ok\n", id);
}

static void list(const char *id) {
  for (struct session *session = sessions; session < sessions + SESSIONS_MAX; session++) {
    if (!session->used) continue;
    const char *state = !ended(session) ? "running" : session->signaled ? "signaled" : "exited";
    control_say("%s o %s %s %d %d %d %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 "\n", id, session->id,
                state, ended(session) ? session->code : session->pid, session->tty, session->held,
                session->out[0].oldest, session->out[0].tail, session->out[1].oldest, session->out[1].tail,
                session->input_total);
  }
  control_say("%s ok %d %d %d\n", id, PROTOCOL_VERSION, SESSIONS_MAX, BACKLOG_MAX);
}

/* Commands of one session. Returns 0 for an unknown verb. */
static int command(struct session *session, const char *verb, const char *id, char *text) {
  int answered = 0;
  if (!strcmp(verb, "session.attach")) attach(session, id, text, 0), answered = 1;
  else if (!strcmp(verb, "session.stream")) attach(session, id, text, 1), answered = 1;
  else if (!strcmp(verb, "session.input")) input(session, id, text), answered = 1;
  else if (!strcmp(verb, "session.put")) put(session, id, text), answered = 1;
  else if (!strcmp(verb, "session.resize")) resize(session, id, text), answered = 1;
  else if (!strcmp(verb, "session.ack")) ack(session, text);
  else if (!strcmp(verb, "session.eof")) session->closing = session->input >= 0;
  else if (!strcmp(verb, "session.detach")) {
    if (!strcmp(text, "*") || !strcmp(text, session->token)) session_detach(session, "detached");
  } else if (!strcmp(verb, "session.signal")) {
    if ((answered = session_signal(session, atoi(text)) < 0)) control_say("%s err it has ended\n", id);
  } else if (!strcmp(verb, "session.remove")) {
    if ((answered = !ended(session))) control_say("%s err it is running\n", id);
    else session_free(session);
  } else return 0;
  if (!answered) control_say("%s ok\n", id);
  return 1;
}

/* Names appear in lists, whose words are not encoded. */
static int valid_name(const char *name) {
  size_t length = strspn(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-");
  return length > 0 && length < sizeof sessions->id && !name[length];
}

/* `session.list`, `session.limits`, or `session.<verb> <session> [arguments]`. Returns 0 for an unknown verb. */
int session_command(const struct config *config, const char *verb, const char *id, char *text, void (*watch)(int fd)) {
  if (!strcmp(verb, "session.list")) return list(id), 1;
  if (!strcmp(verb, "session.limits")) {
    control_say("%s ok %d %d %d\n", id, RECORDS_VERSION, WINDOW_MAX, SESSION_INPUT_MAX / 2);
    return 1;
  }
  char none[] = "", *rest = NULL, *name = strtok_r(text, " ", &rest);
  if (strncmp(verb, "session.", 8)) return 0;
  struct session *session = name ? find(name) : NULL;
  if (!name || !valid_name(name)) control_say("%s err bad name\n", id);
  else if (!strcmp(verb, "session.open") && session) control_say("%s err it exists\n", id);
  else if (!strcmp(verb, "session.open")) session_open(config, id, name, rest, watch);
  else if (!session) control_say("%s err no such session\n", id);
  else return command(session, verb, id, rest ? rest : none);
  return 1;
}

/* Returns whether the PID belongs to a session. The pump reads the rest of the output. */
int session_reaped(pid_t pid, int status) {
  for (struct session *session = sessions; session < sessions + SESSIONS_MAX; session++) {
    if (!session->used || session->pid != pid) continue;
    session->pid = 0;
    session->signaled = WIFSIGNALED(status);
    session->code = session->signaled ? WTERMSIG(status) : WEXITSTATUS(status);
    session_close_input(session);
    return 1;
  }
  return 0;
}
