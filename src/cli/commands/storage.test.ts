import { expect, it } from 'vitest'
import { detachText } from './storage.ts'

it('a volume counts as detached only when no VM uses it any longer', () => {
  expect(detachText('data', { status: 'detached', message: null })).toBe('Detached data from the app.')
  const message = 'The VM unmounts /data first.'
  expect(detachText('data', { status: 'detaching', message })).toBe(`Detaching data. ${message}`)
})
