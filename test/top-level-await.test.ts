/** Modules may not wait while they load. Runs on one PostgreSQL only: no database. */
import { globSync, readFileSync } from 'node:fs'
import { expect, it } from 'vitest'

/**
 * In the bundle, a module that imports one of the chunk that waits for it never loads: every command of the shipped
 * command line hung once, while the sources worked. Only the entry waits, for the commands.
 */
it('no module but the entry of the command line awaits at its top level', () => {
  const waits = /^(?:export )?(?:(?:const|let) [^=\n]+= ?)?(?:for )?await\b/m
  const files = globSync('src/**/*.ts').filter(file => !file.endsWith('.test.ts'))
  expect(files.length).toBeGreaterThan(500)
  expect(files.filter(file => waits.test(readFileSync(file, 'utf8')))).toEqual([])
  expect(readFileSync('src/cli/main.ts', 'utf8')).toMatch(/^else await import/m)
})
