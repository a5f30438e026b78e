import { globSync, readFileSync } from 'node:fs'
import { expect, it } from 'vitest'
import { describedActions, inWordsOf } from './words.ts'

it('every action that the source code records has a description', () => {
  const found = globSync('src/control/**/*.ts')
    .filter(file => !file.endsWith('.test.ts'))
    .flatMap(file => [...readFileSync(file, 'utf8').matchAll(/(?:action: |noteOf\()'([a-z_0-9]+(?:\.[a-z_0-9]+)+)'/g)])
    .map(([, action]) => action ?? '')
  expect(found.length).toBeGreaterThan(80)
  expect([...new Set(found)].filter(action => !describedActions.includes(action))).toEqual([])
})

it('the description of an audit entry names the object that was changed', () => {
  expect(inWordsOf('deployment.create', { app: 'web', image: 'nginx:1.27' })).toBe('deployed web (nginx:1.27)')
  expect(inWordsOf('app.env.set', { app: 'web', name: 'KEY' })).toBe('set the variable KEY of web')
  expect(inWordsOf('app.scale', { name: 'web', desiredReplicas: 3 })).toBe('scaled web to 3')
  expect(inWordsOf('deployment.live', { app: 'web', version: 'nginx:1.27' })).toBe(
    'finished a deployment of web: nginx:1.27',
  )
  expect(inWordsOf('deployment.failed', { app: 'web', reason: 'It crashed.' })).toBe(
    'reported a failed deployment of web: It crashed.',
  )
  expect(inWordsOf('deployment.finished', { app: 'worker', version: 'nginx:1.27' })).toBe(
    'stopped a deployment of worker, whose program had ended: nginx:1.27',
  )
  expect(inWordsOf('auth.login', null)).toBe('signed in')
  expect(inWordsOf('thing.was_done', {})).toBe('thing was done')
  expect(inWordsOf('app.create', { name: 'x'.repeat(1000) })).toHaveLength(300)
})
