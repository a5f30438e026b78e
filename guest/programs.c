/*
 * Further programs of the VM, with the image and the disks of its program: those that run before it (one after the other),
 * and those beside it, which init restarts by itself. The host only hears of a program that cannot be kept running.
 */
#include "mote.h"
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PROGRAMS_MAX = 16, LINKS_MAX = 16, ARGS_MAX = 128, ENV_MAX = 512, LINE_BYTES = 4096, FAILURES_MAX = 10, PAUSE_MAX_S = 30 };
static const uint64_t steady_us = 600 * 1000000ull;

struct program {
  const char *name, *restart;
  char *argv[ARGS_MAX + 1], *env[ENV_MAX + 1];
  int argc, envc, before, done, failures, fds[2];
  pid_t pid;
  uint64_t started_us, due_us; /* due_us: when it is started again; 0: it is not */
  char line[2][LINE_BYTES];
  size_t used[2];
};
static struct {
  char *path, *to;
} links[LINKS_MAX];
static int link_count;
static struct program programs[PROGRAMS_MAX];
static int count;
static struct program *before; /* the one that runs as the workload now */

void programs_take(const char *key, char *value) {
  if (!strcmp(key, "program") && count < PROGRAMS_MAX) {
    programs[count++] = (struct program){.name = value, .restart = "always", .fds = {-1, -1}};
    return;
  }
  if (!strcmp(key, "program_link") && link_count < LINKS_MAX) links[link_count].path = value;
  if (!strcmp(key, "program_link_to") && link_count < LINKS_MAX) links[link_count++].to = value;
  struct program *last = programs + count - 1;
  if (!count) return;
  if (!strcmp(key, "program_arg") && last->argc < ARGS_MAX) last->argv[last->argc++] = value;
  else if (!strcmp(key, "program_env") && last->envc < ENV_MAX) last->env[last->envc++] = value;
  else if (!strcmp(key, "program_restart")) last->restart = value;
  else if (!strcmp(key, "program_before")) last->before = atoi(value);
}

/* Makes the links, over directories of the image. Returns the path that could not be made, or NULL. */
const char *programs_link(void) {
  for (int i = 0; i < link_count; i++) {
    char kept[4096];
    struct stat found;
    const char *path = links[i].path;
    if (!path || !links[i].to) return "link";
    make_parents(links[i].path);
    if (lstat(path, &found) == 0 && !S_ISLNK(found.st_mode)) {
      snprintf(kept, sizeof kept, "%s.image", path);
      if (rmdir(path) < 0 && rename(path, kept) < 0) return path;
    }
    if (symlink(links[i].to, path) < 0 && errno != EEXIST) return path;
  }
  return NULL;
}

static pid_t start_one(const struct config *config, struct program *program, int fds[2]) {
  static struct config own;
  own = *config;
  memcpy(own.env, program->env, sizeof program->env);
  return program->argc ? spawn(&own, program->argv, fds) : -1;
}

static void say(const struct program *program, const char *what) {
  char line[512];
  int length = snprintf(line, sizeof line, "%.64s %s", program->name, what);
  log_line(SYSTEM, line, (size_t)length < sizeof line ? (size_t)length : sizeof line - 1);
}

/* Starts the next program that runs before the workload, in its place. Returns 1 if there is none, -1 if it cannot run. */
int programs_before(struct workload *workload, const struct config *config) {
  before = NULL;
  for (struct program *one = programs; one < programs + count && !before; one++)
    if (one->before && !one->done) before = one;
  if (!before) return 1;
  int fds[2];
  pid_t pid = start_one(config, before, fds);
  if (pid < 0) return -1;
  say(before, "runs before the program");
  workload->pid = pid, workload->out = fds[0], workload->err = fds[1], workload->exited = 0;
  return 0;
}

/* The workload has ended: whether it was a program before it that succeeded. */
int programs_before_done(int code) {
  if (!before || code) return 0;
  before->done = 1;
  return 1;
}

static void start_beside(const struct config *config, struct program *one, void (*watch)(int fd)) {
  one->due_us = 0, one->used[0] = one->used[1] = 0;
  one->started_us = now_us();
  one->pid = start_one(config, one, one->fds);
  if (one->pid > 0) watch(one->fds[0]), watch(one->fds[1]);
  else one->pid = 0, say(one, "cannot be started");
}

/* Starts those that run beside the workload and do not run yet. */
void programs_start(const struct config *config, void (*watch)(int fd)) {
  for (struct program *one = programs; one < programs + count; one++)
    if (!one->before && !one->pid && !one->done) one->failures = 0, start_beside(config, one, watch);
}

static void end_line(struct program *one, int which) {
  char text[LINE_BYTES + 80];
  if (!one->used[which]) return;
  int length = snprintf(text, sizeof text, "%.64s | %.*s", one->name, (int)one->used[which], one->line[which]);
  log_line(which ? ERR : OUT, text, (size_t)length < sizeof text ? (size_t)length : sizeof text - 1);
  one->used[which] = 0;
}

static void drain_one(struct program *one, int which) {
  char buffer[4096];
  for (int turn = 0; one->fds[which] >= 0 && turn < 16; turn++) {
    ssize_t n = read(one->fds[which], buffer, sizeof buffer);
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) return;
    if (n <= 0) {
      end_line(one, which);
      close(one->fds[which]);
      one->fds[which] = -1;
      return;
    }
    for (ssize_t i = 0; i < n; i++) {
      if (buffer[i] != '\n') one->line[which][one->used[which]++] = buffer[i];
      if (buffer[i] == '\n' || one->used[which] == LINE_BYTES) end_line(one, which);
    }
  }
}

/* Returns whether the descriptor belongs to a program. */
int programs_read(int fd) {
  for (struct program *one = programs; one < programs + count; one++)
    for (int which = 0; which < 2; which++)
      if (fd >= 0 && one->fds[which] == fd) return drain_one(one, which), 1;
  return 0;
}

/* Children of an ended program may hold its pipes; what they write is discarded. */
static void close_pipes(struct program *one) {
  for (int which = 0; which < 2; which++) {
    drain_one(one, which);
    if (one->fds[which] >= 0) end_line(one, which), close(one->fds[which]);
    one->fds[which] = -1;
  }
}

static void plan_restart(struct program *one, int code, pid_t workload) {
  char what[160];
  int again = !strcmp(one->restart, "always") || (code && !strcmp(one->restart, "on-failure"));
  if (now_us() - one->started_us >= steady_us) one->failures = 0;
  if (!again) {
    one->done = 1;
    snprintf(what, sizeof what, "ended with code %d", code);
  } else if (one->failures++ >= FAILURES_MAX) {
    /* The host decides about a VM whose program has ended. */
    snprintf(what, sizeof what, "ended with code %d for the %dth time: the VM's program is ended, too", code, one->failures);
    if (workload) kill(-workload, SIGTERM);
  } else {
    int pause_s = one->failures > 5 ? PAUSE_MAX_S : 1 << (one->failures - 1);
    snprintf(what, sizeof what, "ended with code %d; it starts again in %d s", code, pause_s);
    one->due_us = now_us() + (uint64_t)pause_s * 1000000;
  }
  say(one, what);
}

/* Returns whether the process was a program. */
int programs_reaped(pid_t pid, int status, int halting, pid_t workload) {
  for (struct program *one = programs; one < programs + count; one++)
    if (one->pid == pid) {
      one->pid = 0;
      close_pipes(one);
      if (!halting) plan_restart(one, WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status), workload);
      return 1;
    }
  return 0;
}

/* Starts those whose pause is over. */
void programs_pump(const struct config *config, void (*watch)(int fd)) {
  for (struct program *one = programs; one < programs + count; one++)
    if (one->due_us && one->due_us <= now_us()) start_beside(config, one, watch);
}

/* Milliseconds until the next start; -1 if there is none. */
int programs_wait_ms(void) {
  uint64_t now = now_us(), first = UINT64_MAX;
  for (struct program *one = programs; one < programs + count; one++)
    if (one->due_us && one->due_us < first) first = one->due_us;
  if (first == UINT64_MAX) return -1;
  return first <= now ? 0 : (int)((first - now) / 1000) + 1;
}

/* Returns how many run. */
int programs_signal(int signal) {
  int running = 0;
  for (struct program *one = programs; one < programs + count; one++) {
    one->due_us = 0;
    if (one->pid) running++;
    if (one->pid && signal) kill(-one->pid, signal);
  }
  return running;
}
