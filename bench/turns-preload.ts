/** Imported into `mote up` before its own code: answers the message `turns` with the figures of its event loop. */
import { isMainThread } from 'node:worker_threads'
import { watchTurns } from './event-loop.ts'

// Threads and child processes inherit the import.
if (isMainThread && process.argv[2] === 'up' && process.send) {
  const turns = watchTurns(5)
  process.on('message', message => {
    if (message === 'turns') process.send?.(turns())
  })
  process.channel?.unref()
}
