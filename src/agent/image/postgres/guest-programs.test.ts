import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, it } from 'vitest'
import { guestFiles } from './recipe.ts'

/**
 * gVisor shows a volume with another type than QEMU does. Programs that looked for ext4 by themselves found no archive
 * there, so databases had no backups.
 */
it('only mote-volumes looks at mounts and types of file systems', () => {
  const looking = readdirSync(guestFiles).filter(name =>
    /\/proc\/(self\/)?mount|\bext4\b|\bmountpoint\b/.test(readFileSync(join(guestFiles, name), 'utf8')),
  )
  expect(looking).toEqual(['mote-volumes'])
})
