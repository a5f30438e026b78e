import { expect, test } from 'vitest'
import { hasLeft, mirrorNode } from './migrate.ts'

const qmp = (mirror: boolean, migration: string, status: string) => ({
  execute: async (command: string) => {
    if (command === 'query-named-block-nodes') return mirror ? [{ 'node-name': mirrorNode }] : []
    return { status: command === 'query-migrate' ? migration : status }
  },
})

test.each([
  ['has migrated with its disk', true, 'completed', 'postmigrate', true],
  ['has arrived from another host and is migrating to a third', true, 'completed', 'running', false],
  ['has arrived from another host, is paused, and is migrating', true, 'completed', 'paused', false],
  ['is migrating', true, 'active', 'running', false],
  ['was paused for a snapshot', false, 'completed', 'postmigrate', false],
  ['was never migrated', false, 'none', 'running', false],
])('a VM that %s (mirror %s, migration %s, status %s): hasLeft is %s', async (_, mirror, migration, status, left) => {
  expect(await hasLeft(qmp(mirror, migration, status))).toBe(left)
})
