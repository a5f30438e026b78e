import { expect, it } from 'vitest'
import { checkHealthPath } from './rules.ts'

it.each([
  '',
  'health',
  '//evil.example/health',
  'http://evil.example/',
  '/a b',
  '/a\r\nHost: x',
  '/\u0100',
  `/${'x'.repeat(512)}`,
])('%j is refused as a health check path', path => {
  expect(() => checkHealthPath(path)).toThrow('health_check_path: must be a path')
})

it.each(['/', '/health', '/a/../b?deep=1&x=%20'])('%j is accepted as a health check path', path => {
  expect(checkHealthPath(path)).toBe(path)
})
