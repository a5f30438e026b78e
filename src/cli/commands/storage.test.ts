import { expect, it } from 'vitest'
import { detachText, readySnapshot } from './storage.ts'

it('a volume is reported as detached only when no VM uses it any longer', () => {
  expect(detachText('data', { status: 'detached', message: null })).toBe('Detached data from the app.')
  const message = 'The VM unmounts /data first.'
  expect(detachText('data', { status: 'detaching', message })).toBe(`Detaching data. ${message}`)
})

it('waiting for a snapshot ends when it is ready, has failed or was deleted', () => {
  const of = (status: string) => [{ id: '1', name: 'monday', status }]
  const asked = { id: '1', name: 'monday' }
  expect(readySnapshot(of('creating'), asked)).toBeUndefined()
  expect(readySnapshot(of('ready'), asked)).toEqual(of('ready')[0])
  expect(() => readySnapshot(of('failed'), asked)).toThrow('The snapshot monday has failed.')
  expect(() => readySnapshot([], asked)).toThrow('The snapshot monday was deleted.')
})
