/**
 * A module that Node loads into `mote up` before its own code. It replies to the message `turns` with figures of the
 * event loop.
 */
import { isMainThread } from 'node:worker_threads'
import { watchTurns } from './event-loop.ts'

// Worker threads and child processes load this file, too, but only the main thread of `mote up` is measured.
if (isMainThread && process.argv[2] === 'up' && process.send) {
  const turns = watchTurns(5)
  process.on('message', message => {
    if (message === 'turns') process.send?.(turns())
  })
  process.channel?.unref()
}
