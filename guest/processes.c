/* Lists the processes of the VM for the host. Like the file tools, it needs nothing of the image. */
#include "mote.h"
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { COMMAND_BYTES = 512, PROCESSES_MAX = 4096 };

static ssize_t read_of(const char *pid, const char *name, char *to, size_t size) {
  char path[64];
  snprintf(path, sizeof path, "/proc/%.16s/%s", pid, name);
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return -1;
  ssize_t got = read_full(fd, to, size - 1);
  close(fd);
  if (got >= 0) to[got] = 0;
  return got;
}

/* `<pid> <parent> <uid> <state> <ms of CPU time> <KiB of memory> <command>`; the command is encoded. proc(5) */
static void list_one(const char *pid) {
  char stat_line[1024], command[COMMAND_BYTES], encoded[3 * COMMAND_BYTES + 1], path[64];
  struct stat owner;
  snprintf(path, sizeof path, "/proc/%.16s", pid);
  if (stat(path, &owner) < 0 || read_of(pid, "stat", stat_line, sizeof stat_line) <= 0) return;
  /* The name is in parentheses and may contain any byte. */
  char *name = strchr(stat_line, '('), *rest = strrchr(stat_line, ')'), state;
  int parent;
  unsigned long long user, kernel;
  long long pages;
  if (!name || !rest || sscanf(rest + 1,
                               " %c %d %*d %*d %*d %*d %*u %*u %*u %*u %*u %llu %llu %*d %*d %*d %*d %*d %*d %*u %*u %lld",
                               &state, &parent, &user, &kernel, &pages) != 5)
    return;
  ssize_t length = read_of(pid, "cmdline", command, sizeof command);
  /* Arguments end with NUL. Threads of the kernel have none. */
  for (ssize_t i = 0; i + 1 < length; i++)
    if (!command[i]) command[i] = ' ';
  if (length <= 0) length = snprintf(command, sizeof command, "[%.*s]", (int)(rest - name - 1), name + 1);
  else if (!command[length - 1]) length--;
  encode(encoded, command, (size_t)length < sizeof command ? (size_t)length : sizeof command - 1);
  long long tick_ms = 1000 / sysconf(_SC_CLK_TCK);
  dprintf(1, "%s %d %u %c %llu %lld %s\n", pid, parent, owner.st_uid, state, (user + kernel) * (unsigned long long)tick_ms,
          pages * (sysconf(_SC_PAGESIZE) / 1024), encoded);
}

int list_processes(void) {
  DIR *dir = opendir("/proc");
  if (!dir) return file_fault("/proc");
  int count = 0;
  for (struct dirent *entry; count < PROCESSES_MAX && (entry = readdir(dir));)
    if (entry->d_name[0] >= '1' && entry->d_name[0] <= '9') list_one(entry->d_name), count++;
  closedir(dir);
  return 0;
}
