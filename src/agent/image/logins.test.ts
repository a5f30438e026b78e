import { expect, it } from 'vitest'
import { createMemoryBus } from '../../bus/memory.ts'
import { subjects } from '../../contract/agent.ts'
import { testLog } from '../../../test/support/log.ts'
import { until } from '../../../test/support/wait.ts'
import { buildLoginsFrom } from './logins.ts'

const { signal } = new AbortController()

it('a base image is treated as public if the control plane does not answer the credential request', {
  timeout: 20_000,
}, async () => {
  const bus = createMemoryBus({ log: testLog() })
  expect(await buildLoginsFrom(bus, 'h1')('b1', 'ghcr.io/acme/base:1', signal)).toBeUndefined()
  await bus.close()
})

it('a credential request is retried until the control plane answers', async () => {
  const bus = createMemoryBus({ log: testLog() })
  let isAsked = false
  const asking = buildLoginsFrom(bus, 'h1')('b1', 'ghcr.io/acme/base:1', signal).finally(() => (isAsked = true))
  const login = { host: 'ghcr.io', username: 'ada', password: 'secret' }
  await bus.serve(subjects.registryLogin('h1'), async () => ({ login }))
  await until(() => isAsked, { what: 'the answer' })
  expect(await asking).toEqual(login)
  await bus.close()
})
