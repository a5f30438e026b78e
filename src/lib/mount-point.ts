/** Directories where a volume can be mounted in a VM. */

/** Paths that the guest's own programs and settings need; a volume mounted over one of them would prevent the start. */
const systemTrees = ['/bin', '/boot', '/dev', '/lib', '/lib32', '/lib64', '/libx32', '/mote', '/proc'].concat([
  ...['/sbin', '/sys', '/usr/bin', '/usr/lib', '/usr/lib64', '/usr/libexec', '/usr/sbin'],
  // What the guest reads or writes in /etc. Other directories in /etc may be mount points.
  ...['/etc/group', '/etc/hostname', '/etc/hosts', '/etc/machine-id', '/etc/mote', '/etc/passwd', '/etc/resolv.conf'],
])
/** Directories at which no volume can be mounted, while their subdirectories may be mount points. */
const systemRoots = ['/', '/etc', '/home', '/opt', '/run', '/tmp', '/usr', '/usr/local', '/usr/share', '/var'].concat([
  ...['/var/cache', '/var/lib', '/var/log', '/var/run', '/var/tmp'],
])
const lengthLimit = 200

const isWithin = (path: string, tree: string) => path === tree || path.startsWith(`${tree}/`)

/** Returns why a volume cannot be mounted at the path; undefined if it can. */
export function mountPointFault(path: string): string | undefined {
  if (!path.startsWith('/')) return 'must be absolute, for example /data'
  if (path.length > lengthLimit) return `must have at most ${lengthLimit} characters`
  const parts = path.split('/').slice(1)
  if (path !== '/' && parts.some(part => part === '' || part === '.' || part === '..'))
    return 'must be normalized: no empty parts, no "." and no ".."'
  if (path !== '/' && !parts.every(part => /^[A-Za-z0-9._@+-]+$/.test(part)))
    return 'may contain letters, digits, ".", "_", "@", "+" and "-" between the slashes'
  if (systemRoots.includes(path) || systemTrees.some(tree => isWithin(path, tree)))
    return `${path} belongs to the system; use a directory of your own, for example /data`
  return undefined
}
