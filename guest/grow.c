/* The host may grow a volume while it is mounted or between two mounts; this grows its file system. */
#include "mote.h"
#include <fcntl.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/statfs.h>
#include <unistd.h>

/* From linux/fs.h and fs/ext4/ext4.h, which musl lacks. */
#define BLKGETSIZE64 _IOR(0x12, 114, size_t)
#define EXT4_IOC_RESIZE_FS _IOW('f', 16, uint64_t)

/* Rescans the size of a SCSI disk; a virtio disk reports it by itself. */
void disk_rescan(const char *name) {
  char path[300];
  snprintf(path, sizeof path, "/sys/block/%s/device/rescan", name);
  int fd = open(path, O_WRONLY | O_CLOEXEC);
  if (fd < 0) return;
  if (write(fd, "1", 1) < 0) perror(path);
  close(fd);
}

uint64_t disk_bytes(const char *device) {
  uint64_t bytes = 0;
  int fd = open(device, O_RDONLY | O_CLOEXEC);
  if (fd >= 0 && ioctl(fd, BLKGETSIZE64, &bytes) < 0) bytes = 0;
  if (fd >= 0) close(fd);
  return bytes;
}

/*
 * Grows the mounted ext4 to the size of its disk. Returns -1 with errno if it is unchanged because of an error. No
 * change if it already fills the disk.
 */
int disk_fill(const char *device, const char *at) {
  struct statfs stat_of;
  int fd = open(at, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return -1;
  int result = fstatfs(fd, &stat_of);
  if (result == 0) {
    uint64_t blocks = disk_bytes(device) / (uint64_t)stat_of.f_bsize;
    result = blocks ? ioctl(fd, EXT4_IOC_RESIZE_FS, &blocks) : -1;
  }
  close(fd);
  return result;
}
