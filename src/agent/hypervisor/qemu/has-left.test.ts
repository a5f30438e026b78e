import { expect, test } from 'vitest'
import { hasLeft, mirrorNode } from './migrate.ts'

const qmp = (mirror: boolean, migration: string, status: string) => ({
  execute: async (command: string) => {
    if (command === 'query-named-block-nodes') return mirror ? [{ 'node-name': mirrorNode }] : []
    return { status: command === 'query-migrate' ? migration : status }
  },
})

test.each([
  ['has gone with its disk', true, 'completed', 'postmigrate', true],
  ['came from another host, and its disk is being copied to a third', true, 'completed', 'running', false],
  ['came from another host, is paused, and its disk is being copied', true, 'completed', 'paused', false],
  ['is being copied', true, 'active', 'running', false],
  ['was written to a snapshot', false, 'completed', 'postmigrate', false],
  ['was never moved', false, 'none', 'running', false],
])('a VM that %s', async (_, mirror, migration, status, left) => {
  expect(await hasLeft(qmp(mirror, migration, status))).toBe(left)
})
