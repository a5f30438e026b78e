/*
 * unprivileged <first id> <ids> <dir> host|none [<file or directory>=<name>]... [@<disk>=<name>]... -- <program> [argument]...
 *
 * Runs a program that reads a tenant's data. In its user namespace the program is root and can change the owner of
 * files to any user of an image; on the host these users are unused ids. <dir> is mounted at /mnt, which is the working
 * directory, and the named files are mounted read-only below it. A disk is a file with an ext4 file system, which limits what
 * can be written below its name; it is unmounted when the program has ended. The network is the host's or none. The program keeps
 * only capabilities over its own files. Needs root.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <linux/loop.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define PLACE "/mnt"

static int fail(const char *what) {
  perror(what);
  return 127;
}

/* Maps ids from a child outside the namespace: the unprivileged process cannot do it itself (user_namespaces(7)). */
static int map_ids(pid_t of, const char *file, const char *first, const char *ids) {
  char path[64], line[64];
  snprintf(path, sizeof path, "/proc/%d/%s", of, file);
  int length = snprintf(line, sizeof line, "0 %s %s\n", first, ids);
  int fd = open(path, O_WRONLY | O_CLOEXEC);
  if (fd < 0) return -1;
  int result = write(fd, line, length) == length ? 0 : -1;
  close(fd);
  return result;
}

static int enter_user_namespace(const char *first, const char *ids, int network) {
  int ready[2], status;
  char byte;
  pid_t self = getpid();
  if (pipe2(ready, O_CLOEXEC) < 0) return -1;
  pid_t outside = fork();
  if (outside < 0) return -1;
  if (outside == 0) {
    close(ready[1]);
    if (read(ready[0], &byte, 1) != 1) _exit(1);
    _exit(map_ids(self, "uid_map", first, ids) < 0 || map_ids(self, "gid_map", first, ids) < 0);
  }
  close(ready[0]);
  int result = unshare(CLONE_NEWUSER | CLONE_NEWIPC | network);
  if (result == 0 && write(ready[1], "x", 1) != 1) result = -1;
  close(ready[1]);
  if (waitpid(outside, &status, 0) != outside || status != 0) result = -1;
  return result;
}

/* Mounts the file system of the file at the target. The kernel detaches the loop device when it is unmounted. */
static int mount_disk(const char *file, const char *target) {
  int backing = open(file, O_RDWR | O_CLOEXEC);
  int control = open("/dev/loop-control", O_RDWR | O_CLOEXEC);
  if (backing < 0 || control < 0) return -1;
  /* Another process may take the free device first. */
  for (int tries = 0; tries < 100; tries++) {
    char device[32];
    int number = ioctl(control, LOOP_CTL_GET_FREE);
    snprintf(device, sizeof device, "/dev/loop%d", number);
    int loop = number < 0 ? -1 : open(device, O_RDWR | O_CLOEXEC);
    if (loop < 0) return -1;
    struct loop_config config = {.fd = backing, .info = {.lo_flags = LO_FLAGS_AUTOCLEAR}};
    if (ioctl(loop, LOOP_CONFIGURE, &config) == 0) {
      int result = mount(device, target, "ext4", MS_NOSUID | MS_NODEV | MS_NOATIME, "nobarrier");
      close(loop);
      close(control);
      close(backing);
      return result;
    }
    int cause = errno;
    close(loop);
    if (cause != EBUSY) return errno = cause, -1;
  }
  return -1;
}

/* Mounts the source of `<source>=<name>` read-only under that name in the directory. */
static int show(const char *dir, char *pair) {
  char target[4096];
  struct stat about;
  char *equals = strrchr(pair, '=');
  if (equals == NULL) return errno = EINVAL, -1;
  *equals = 0;
  int is_disk = pair[0] == '@';
  if (snprintf(target, sizeof target, "%s/%s", dir, equals + 1) >= (int)sizeof target) return errno = ENAMETOOLONG, -1;
  if (is_disk) return mkdir(target, 0755) < 0 && errno != EEXIST ? -1 : mount_disk(pair + 1, target);
  if (stat(pair, &about) < 0) return -1;
  if (S_ISDIR(about.st_mode) && mkdir(target, 0755) < 0 && errno != EEXIST) return -1;
  if (!S_ISDIR(about.st_mode)) close(open(target, O_CREAT | O_WRONLY | O_CLOEXEC, 0644));
  if (mount(pair, target, NULL, MS_BIND, NULL) < 0) return -1;
  return mount(NULL, target, NULL, MS_REMOUNT | MS_BIND | MS_RDONLY | MS_NOSUID | MS_NODEV, NULL);
}

/* Drops all capabilities of the namespace's root except those over files of its own ids. */
static int keep_rights_over_files(void) {
  for (int right = 0; prctl(PR_CAPBSET_READ, right) >= 0; right++) {
    int kept = right == CAP_CHOWN || right == CAP_DAC_OVERRIDE || right == CAP_FOWNER || right == CAP_FSETID ||
               right == CAP_SETFCAP;
    if (!kept && prctl(PR_CAPBSET_DROP, right) < 0) return -1;
  }
  return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
}

int main(int argc, char **argv) {
  int at = 5;
  while (at < argc && strcmp(argv[at], "--") != 0) at++;
  if (at + 1 >= argc) {
    fputs("usage: unprivileged <first id> <ids> <dir> host|none [[@]<source>=<name>]... -- <program> [argument]...\n", stderr);
    return 127;
  }
  if (unshare(CLONE_NEWNS) < 0) return fail("unshare");
  if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0) return fail("/");
  for (int n = 5; n < at; n++)
    if (show(argv[3], argv[n]) < 0) return fail(argv[n]);
  if (mount(argv[3], PLACE, NULL, MS_BIND | MS_REC, NULL) < 0) return fail(PLACE);
  if (mount(NULL, PLACE, NULL, MS_REMOUNT | MS_BIND | MS_NOSUID | MS_NODEV, NULL) < 0) return fail(PLACE);
  if (enter_user_namespace(argv[1], argv[2], strcmp(argv[4], "host") == 0 ? 0 : CLONE_NEWNET) < 0) return fail("user namespace");
  if (setgroups(0, NULL) < 0 || setresgid(0, 0, 0) < 0 || setresuid(0, 0, 0) < 0) return fail("ids");
  if (keep_rights_over_files() < 0) return fail("capabilities");
  /* Must follow the change of user ids, which resets the parent-death signal. */
  if (prctl(PR_SET_PDEATHSIG, SIGKILL) < 0 || chdir(PLACE) < 0) return fail(PLACE);
  umask(022);
  execvp(argv[at + 1], argv + at + 1);
  return fail(argv[at + 1]);
}
