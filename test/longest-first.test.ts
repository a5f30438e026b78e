import { existsSync } from 'node:fs'
import { expect, it } from 'vitest'
import { filesOnlyInAll } from './support/files-only-in-all.ts'
import { longest } from './support/longest-first.ts'

it('every file in the list of test files to start first exists', () =>
  expect(longest.filter(file => !existsSync(file))).toEqual([]))

it('every file in the list of those that only test:all runs exists', () =>
  expect(filesOnlyInAll.filter(file => !existsSync(file))).toEqual([]))
