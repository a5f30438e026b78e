/*
 * For tests: runs the supervision of further programs of a VM with a simulated clock. Arguments: restart policy, exit
 * code, seconds that each run lasts, number of exits. Prints what init would log, start times, and signals to the VM's
 * main program.
 */
#include <signal.h>
static int told(int pid, int signal);
#define kill told
#include "../../../guest/programs.c"
#undef kill
#include <fcntl.h>
#include <stdlib.h>

static uint64_t clock_us = 1;
static pid_t last_pid = 100;
static const pid_t workload = 7;

uint64_t now_us(void) { return clock_us; }
void log_line(enum stream stream, const char *data, size_t length) { (void)stream, printf("%.*s\n", (int)length, data); }
void make_parents(const char *path) { (void)path; }
static void watch(int fd) { (void)fd; }
static int told(int pid, int signal) { return printf("signal %d to %d\n", signal, pid), 0; }
pid_t spawn(const struct config *config, char *const *argv, int fds[2]) {
  (void)config, (void)argv;
  fds[0] = open("/dev/null", O_RDONLY), fds[1] = open("/dev/null", O_RDONLY);
  printf("starts at %d s\n", (int)(clock_us / 1000000));
  return ++last_pid;
}

int main(int argc, char **argv) {
  static struct config config;
  if (argc != 5) return 1;
  programs_take("program", "worker");
  programs_take("program_arg", "/bin/worker");
  programs_take("program_restart", argv[1]);
  programs_start(&config, watch);
  for (int n = 0; n < atoi(argv[4]); n++) {
    clock_us += (uint64_t)atoi(argv[3]) * 1000000;
    if (!programs_reaped(last_pid, atoi(argv[2]) << 8, 0, workload)) return 0;
    int wait_ms = programs_wait_ms();
    if (wait_ms < 0) return puts("no further start"), 0;
    clock_us += (uint64_t)wait_ms * 1000;
    programs_pump(&config, watch);
  }
  return 0;
}
