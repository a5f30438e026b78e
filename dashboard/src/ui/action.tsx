/** Buttons for one server operation, with its progress and outcome. */
import { type ComponentProps, useState } from 'react'
import { Button } from './button.tsx'
import { messageOf } from './states.tsx'
import { toast } from './toast.tsx'

/** Runs the operation and shows an error as a toast. @returns whether it succeeded */
export async function attempt(act: () => Promise<unknown>, done?: string): Promise<boolean> {
  try {
    await act()
    if (done) toast({ tone: 'good', title: done })
    return true
  } catch (error) {
    toast({ tone: 'bad', title: 'The operation failed', body: messageOf(error) })
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
