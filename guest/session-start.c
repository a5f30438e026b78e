/* Start, signals and end of the process of a session. */
#include "mote.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

enum { PIPE_BYTES = 1 << 18 };

struct request {
  char *argv[MAX_ARGS + 1], *socket, home[1024];
  int argc, rows, columns, tty, input, port, tool;
};

/* An added variable replaces the one of the image. Returns -1 if there are too many. */
static int add_env(struct config *config, char *pair) {
  size_t name = strcspn(pair, "=") + 1;
  int at = 0;
  while (at < config->envc && strncmp(config->env[at], pair, name)) at++;
  if (at == MAX_ARGS) return -1;
  config->env[at] = pair;
  if (at == config->envc) config->envc++, config->env[config->envc] = NULL;
  return 0;
}

/* Returns what is wrong with the request, or NULL. */
static const char *parse(struct config *config, struct request *request, char *text) {
  char *rest = NULL;
  for (char *word = strtok_r(text, " ", &rest); word; word = strtok_r(NULL, " ", &rest)) {
    char *value = strchr(word, '=');
    if (!value) return "bad request";
    *value++ = 0;
    decode(value);
    if (!strcmp(word, "arg") && request->argc < MAX_ARGS) request->argv[request->argc++] = value;
    else if (!strcmp(word, "cwd")) config->cwd = value;
    else if (!strcmp(word, "tcp")) request->port = atoi(value);
    else if (!strcmp(word, "unix")) request->socket = value;
    else if (!strcmp(word, "tool")) request->tool = *value == '1';
    else if (!strcmp(word, "input")) request->input = *value == '1';
    else if (!strcmp(word, "tty")) request->tty = sscanf(value, "%dx%d", &request->rows, &request->columns) == 2;
    else if (!strcmp(word, "env") && add_env(config, value) < 0) return "too many variables";
    else if (!strcmp(word, "user")) {
      int length = snprintf(request->home, sizeof request->home, "HOME=");
      if (user_take(config, value, request->home + length, sizeof request->home - (size_t)length) < 0)
        return "no such user";
      add_env(config, request->home);
    }
  }
  return request->argc || request->port || request->socket ? NULL : "no program";
}

/* A free slot, or the one of the session that was started first among those that have ended. */
static struct session *slot(void) {
  struct session *found = NULL;
  for (struct session *session = sessions; session < sessions + SESSIONS_MAX; session++) {
    if (!session->used) return session;
    int ended = !session->pid && session->fds[0] < 0 && session->fds[1] < 0 && !*session->attach;
    if (ended && (!found || session->started < found->started)) found = session;
  }
  if (found) session_free(found);
  return found;
}

void session_free(struct session *session) {
  session_close_input(session);
  session_detach(session, "removed");
  for (int which = 0; which < 2; which++) {
    if (session->fds[which] >= 0) close(session->fds[which]);
    backlog_close(&session->out[which]);
  }
  free(session->pending);
  memset(session, 0, sizeof *session);
}

/* Opens both ends of a terminal of the guest. stdio has the end of the process. */
static int open_terminal(struct session *session, const struct request *request, int stdio[3]) {
  int main = open("/dev/ptmx", O_RDWR | O_NOCTTY | O_NONBLOCK | O_CLOEXEC), unlock = 0, number = 0;
  char path[32];
  if (main < 0) return -1;
  struct winsize size = {.ws_row = (unsigned short)request->rows, .ws_col = (unsigned short)request->columns};
  if (ioctl(main, TIOCSPTLCK, &unlock) < 0 || ioctl(main, TIOCGPTN, &number) < 0) return close(main), -1;
  snprintf(path, sizeof path, "/dev/pts/%d", number);
  int terminal = open(path, O_RDWR | O_NOCTTY | O_CLOEXEC);
  if (terminal < 0) return close(main), -1;
  ioctl(main, TIOCSWINSZ, &size);
  stdio[0] = stdio[1] = stdio[2] = terminal;
  session->tty = 1, session->fds[0] = session->input = main;
  return 0;
}

static int open_pipes(struct session *session, const struct request *request, int stdio[3]) {
  int in[2] = {-1, -1}, out[2] = {-1, -1}, err[2] = {-1, -1};
  if (pipe2(out, O_CLOEXEC) < 0 || pipe2(err, O_CLOEXEC) < 0 || (request->input && pipe2(in, O_CLOEXEC) < 0)) {
    int ends[] = {in[0], in[1], out[0], out[1], err[0], err[1]};
    for (int i = 0; i < 6; i++)
      if (ends[i] >= 0) close(ends[i]);
    return -1;
  }
  stdio[0] = in[0], stdio[1] = out[1], stdio[2] = err[1];
  session->input = in[1], session->fds[0] = out[0], session->fds[1] = err[0];
  if (in[1] >= 0) fcntl(in[1], F_SETFL, O_NONBLOCK);
  fcntl(out[0], F_SETFL, O_NONBLOCK), fcntl(err[0], F_SETFL, O_NONBLOCK);
  /* Fewer turns between the process and init. */
  fcntl(out[0], F_SETPIPE_SZ, PIPE_BYTES);
  if (in[1] >= 0) fcntl(in[1], F_SETPIPE_SZ, PIPE_BYTES);
  return 0;
}

static void no_action(int number) { (void)number; }

static int start(const struct config *config, struct session *session, const struct request *request) {
  int stdio[3] = {-1, -1, -1};
  int result = request->tty ? open_terminal(session, request, stdio) : open_pipes(session, request, stdio);
  if (result < 0) return -1;
  /* A process that closes its input must not end init. Unlike an ignored signal, a handler is not inherited. */
  signal(SIGPIPE, no_action);
  int relays = request->port || request->socket;
  session->pid = relays ? spawn_relay(config, request->port, request->socket, stdio)
                        : spawn_session(config, request->argv, stdio, session->tty, request->tool);
  for (int i = 0; i < 3; i++)
    if (stdio[i] >= 0 && (i == 0 || !session->tty)) close(stdio[i]);
  return session->pid < 0 ? -1 : 0;
}

/* `<key>=<value>...` with the keys of docs/agent.md. Answers `ok <pid>`. */
void session_open(const struct config *image, const char *id, const char *name, char *text, void (*watch)(int fd)) {
  struct config config = *image;
  struct request request = {0};
  static uint64_t started;
  const char *wrong = parse(&config, &request, text);
  struct session *session = wrong ? NULL : slot();
  if (!session) {
    control_say("%s err %s\n", id, wrong ? wrong : "too many sessions");
    return;
  }
  session->used = session->held = 1, session->input = session->fds[0] = session->fds[1] = -1, session->started = ++started;
  session->pending = malloc(SESSION_INPUT_MAX);
  if (!session->pending || backlog_open(&session->out[0]) < 0 || backlog_open(&session->out[1]) < 0 ||
      start(&config, session, &request) < 0) {
    session->pid = 0;
    session_free(session);
    control_say("%s err cannot start a program\n", id);
    return;
  }
  snprintf(session->id, sizeof session->id, "%s", name);
  for (int which = 0; which < 2; which++)
    if (session->fds[which] >= 0) watch(session->fds[which]);
  if (session->input >= 0 && !session->tty) watch(session->input);
  control_say("%s ok %d\n", id, session->pid);
}

/* The session of a process as in setsid(2), or -1. */
static pid_t session_of(const char *pid) {
  char path[64], text[512];
  int of = -1;
  snprintf(path, sizeof path, "/proc/%.20s/stat", pid);
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  ssize_t length = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
  if (fd >= 0) close(fd);
  if (length <= 0) return -1;
  text[length] = 0;
  /* The name before it may contain spaces and parentheses. */
  char *after = strrchr(text, ')');
  return after && sscanf(after + 1, " %*c %*d %*d %d", &of) == 1 ? of : -1;
}

/* A shell puts its jobs into process groups of their own; they are all in its session. */
static void kill_all(pid_t leader) {
  DIR *proc = opendir("/proc");
  for (struct dirent *entry; proc && (entry = readdir(proc));)
    if (*entry->d_name >= '1' && *entry->d_name <= '9' && session_of(entry->d_name) == leader)
      kill(atoi(entry->d_name), SIGKILL);
  if (proc) closedir(proc);
}

/* Signals the process group and a terminal's foreground group. SIGKILL ends all processes. Returns -1 if it has ended. */
int session_signal(const struct session *session, int number) {
  if (!session->pid || number < 1 || number > 64) return -1;
  if (number == SIGKILL) kill_all(session->pid);
  pid_t foreground = session->tty ? tcgetpgrp(session->fds[0]) : -1;
  kill(-session->pid, number);
  if (foreground > 1 && foreground != session->pid) kill(-foreground, number);
  return 0;
}
