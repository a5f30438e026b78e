/** Deletes apps and volumes, and waits until they are gone. */
import { setTimeout as sleep } from 'node:timers/promises'
import { appsOf } from '../stack/plan.ts'
import type { Call } from './verb.ts'

const goneMs = 120_000
const pollMs = 250

/** Deletes the app and waits until it is gone, so that its volumes are free. */
export async function deleteApp(call: Call, app_name: string): Promise<void> {
  await call.terminal.step(`Deleting ${app_name}`, async () => {
    await call.client.deleteApp({ app_name })
    const until = performance.now() + goneMs
    while ((await appsOf(call.client)).some(app => app.name === app_name)) {
      if (performance.now() > until) throw new Error(`${app_name} is still being deleted. Run the command again later.`)
      await sleep(pollMs, undefined, { signal: call.signal })
    }
  })
}

/** Deletes the volume. Retries while the volume is attached, until the last VM of its app is gone. */
export async function deleteVolume(call: Call, volume_id: string): Promise<void> {
  const until = performance.now() + goneMs
  for (;;) {
    try {
      return void (await call.client.deleteVolume({ volume_id }))
    } catch (cause) {
      const status: unknown = cause instanceof Error ? Reflect.get(cause, 'status') : undefined
      if (status !== 409 || performance.now() > until) throw cause
      await sleep(pollMs, undefined, { signal: call.signal })
    }
  }
}
