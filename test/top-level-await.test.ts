/**
 * Modules do not use top-level await.
 * Not repeated on the distribution's PostgreSQL: this file uses no database.
 */
import { globSync, readFileSync } from 'node:fs'
import { expect, it } from 'vitest'

/**
 * In the bundle, a top-level await deadlocks if it waits for a module that imports from the same chunk. Every command
 * of the shipped CLI hung once, while the sources worked. Only the CLI's entry module awaits: it loads the commands.
 */
it('only the entry module of the CLI uses top-level await', () => {
  const waits = /^(?:export )?(?:(?:const|let) [^=\n]+= ?)?(?:for )?await\b/m
  const files = globSync('src/**/*.ts').filter(file => !file.endsWith('.test.ts'))
  expect(files.length).toBeGreaterThan(500)
  expect(files.filter(file => waits.test(readFileSync(file, 'utf8')))).toEqual([])
  expect(readFileSync('src/cli/main.ts', 'utf8')).toMatch(/^ {2}await import/m)
})
