import { existsSync } from 'node:fs'
import { expect, it } from 'vitest'
import { longest } from './support/longest-first.ts'

it('every file in the list of test files to start first exists', () =>
  expect(longest.filter(file => !existsSync(file))).toEqual([]))
