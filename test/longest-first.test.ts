import { existsSync } from 'node:fs'
import { expect, it } from 'vitest'
import { longest } from './support/longest-first.ts'

it('the files that start first exist', () => expect(longest.filter(file => !existsSync(file))).toEqual([]))
