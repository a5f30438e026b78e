/** Buttons that do one thing on the server, say that they are busy with it, and what became of it. */
import { type ComponentProps, useState } from 'react'
import { Button } from './button.tsx'
import { messageOf } from './states.tsx'
import { toast } from './toast.tsx'

/** Does it, and tells what went wrong. @returns whether it was done */
export async function attempt(act: () => Promise<unknown>, done?: string): Promise<boolean> {
  try {
    await act()
    if (done) toast({ tone: 'good', title: done })
    return true
  } catch (error) {
    toast({ tone: 'bad', title: 'That did not work', body: messageOf(error) })
    return false
  }
}

export function ActionButton({
  act,
  done,
  ...button
}: Omit<ComponentProps<typeof Button>, 'onClick' | 'busy'> & {
  readonly act: () => Promise<unknown>
  readonly done?: string
}) {
  const [busy, setBusy] = useState(false)
  const run = async () => {
    setBusy(true)
    await attempt(act, done)
    setBusy(false)
  }
  return <Button {...button} busy={busy} onClick={() => void run()} />
}
