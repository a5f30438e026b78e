/* Programs that the host runs in the guest on request: as the image's user, with streamed output. */
#include "mote.h"
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MAX_RUNNING = 8, CHUNK = 4096, OUTPUT_MAX = 1 << 20, TIMED_OUT = 124 };

static struct job {
  char id[40];
  pid_t pid; /* 0 once it has ended */
  int used, fds[2], code, truncated;
  size_t sent[2];
  uint64_t deadline_us;
} jobs[MAX_RUNNING];

/* `<timeout ms> <argument>...`, percent-encoded. Answers later: `<id> o|e <bytes>`..., then `<id> ok <code> <cut>`. */
void exec_start(const struct config *config, const char *id, char *text, void (*watch)(int fd)) {
  struct job *job = jobs;
  while (job < jobs + MAX_RUNNING && job->used) job++;
  if (job == jobs + MAX_RUNNING) {
    control_say("%s err too many programs run at once\n", id);
    return;
  }
  char *argv[MAX_ARGS + 1], *rest = NULL, *word = strtok_r(text, " ", &rest);
  long timeout_ms = word ? strtol(word, NULL, 10) : 0;
  int argc = 0;
  while (argc < MAX_ARGS && (word = strtok_r(NULL, " ", &rest))) decode(word), argv[argc++] = word;
  argv[argc] = NULL;
  memset(job, 0, sizeof *job);
  if (argc == 0 || (job->pid = spawn(config, argv, job->fds)) < 0) {
    control_say("%s err cannot start a program\n", id);
    return;
  }
  job->used = 1;
  snprintf(job->id, sizeof job->id, "%s", id);
  job->deadline_us = now_us() + (uint64_t)timeout_ms * 1000;
  watch(job->fds[0]), watch(job->fds[1]);
}

/* Returns whether the PID belongs to such a program. Kills its process group, so that no child outlives the answer. */
int exec_reaped(pid_t pid, int status) {
  for (struct job *job = jobs; job < jobs + MAX_RUNNING; job++) {
    if (!job->used || job->pid != pid) continue;
    kill(-pid, SIGKILL);
    job->pid = 0;
    if (job->code != TIMED_OUT) job->code = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
    return 1;
  }
  return 0;
}

/* Sends available output while the control port has room. Output beyond the limit is read and discarded. */
static void pump(struct job *job, int which) {
  char chunk[CHUNK], encoded[3 * CHUNK + 1];
  while (job->fds[which] >= 0 && control_room() > sizeof encoded + CONTROL_RESERVE) {
    ssize_t n = read(job->fds[which], chunk, sizeof chunk);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && errno == EAGAIN && job->pid) return;
    if (n <= 0) { /* end of file, or everything that the ended program left */
      close(job->fds[which]);
      job->fds[which] = -1;
      return;
    }
    size_t room = OUTPUT_MAX - job->sent[which], take = (size_t)n < room ? (size_t)n : room;
    if (take < (size_t)n) job->truncated = 1;
    job->sent[which] += take;
    if (take) encode(encoded, chunk, take), control_say("%s %s %s\n", job->id, which ? "e" : "o", encoded);
  }
}

void exec_pump(void) {
  for (struct job *job = jobs; job < jobs + MAX_RUNNING; job++) {
    if (!job->used) continue;
    if (job->pid && now_us() >= job->deadline_us) job->code = TIMED_OUT, kill(-job->pid, SIGKILL);
    pump(job, 0), pump(job, 1);
    if (job->pid || job->fds[0] >= 0 || job->fds[1] >= 0 || control_room() < 128) continue;
    control_say("%s ok %d %d\n", job->id, job->code, job->truncated);
    job->used = 0;
  }
}

/* Milliseconds until the next timeout of a program; -1 if none runs. */
int exec_wait_ms(void) {
  uint64_t now = now_us(), first = UINT64_MAX;
  for (struct job *job = jobs; job < jobs + MAX_RUNNING; job++)
    if (job->used && job->pid && job->code != TIMED_OUT && job->deadline_us < first) first = job->deadline_us;
  if (first == UINT64_MAX) return -1;
  return first <= now ? 0 : (int)((first - now) / 1000) + 1;
}
