import { ArchiveFault } from '../../lib/archive/fault.ts'
import { answerJob } from '../../lib/archive/thread.ts'
import { inlineBytes } from './document.ts'

const unread: ReadonlySet<string> = new Set(['annotations', 'history', 'Labels'])

answerJob(async (text: string) => {
  const slim = JSON.stringify(parsed(text), (key, value: unknown) => (unread.has(key) ? undefined : value))
  if (slim.length > inlineBytes) throw new ArchiveFault('too_large', `exceeds the limit of ${inlineBytes} bytes`)
  return slim
})

function parsed(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch (cause) {
    throw new ArchiveFault('unreadable', 'is no JSON', { cause })
  }
}
