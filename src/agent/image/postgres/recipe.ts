/** What the image of database VMs contains: packages, our own files, and the server's user. */
import { createHash } from 'node:crypto'
import { readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'

/** User and group id of the PostgreSQL server in the VM. The host has no such account. */
export const postgresUid = 999

export const wantedPackages = (version: number): readonly string[] => [
  `postgresql-${version}`,
  `postgresql-client-${version}`,
  'pgbackrest',
  'busybox-static',
  'openssl',
  'ca-certificates',
  'tzdata',
  'libc-bin',
]

/**
 * Dependencies that are left out: wrappers and scripts for manually administered servers, and the JIT compiler, which
 * would be a third of the image and is disabled by `jit = off`.
 */
export const unwanted =
  /^(postgresql-common|postgresql-client-common|libllvm\d+\w*|ssl-cert|locales.*|debconf.*|cdebconf.*|perl.*|libperl.*|libjson-perl|adduser|passwd|libpam-.*|lsb-base|sysvinit-utils|init-system-helpers|dpkg|tar|sensible-utils|readline-common|netbase|ucf)$/

/** Directory with the repository's files for the image. */
export const guestFiles = fileURLToPath(new URL('../../../../guest/postgres/', import.meta.url))

/**
 * Returns a digest (16 hex digits) of all files besides the packages that determine the content of the image. Caches of
 * the image use it as a key.
 */
export async function recipeDigest(): Promise<string> {
  const hash = createHash('sha256')
  for (const file of (await readdir(guestFiles)).toSorted()) hash.update(await readFile(join(guestFiles, file)))
  for (const file of ['build.ts', 'cluster.ts', 'recipe.ts', 'warm.ts', '../debian.ts', '../releases.ts'])
    hash.update(await readFile(join(import.meta.dirname, file)))
  return hash.digest('hex').slice(0, 16)
}
