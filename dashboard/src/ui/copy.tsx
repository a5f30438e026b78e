import { Check, Copy } from 'lucide-react'
import { useRef, useState } from 'react'
import { Button } from './button.tsx'
import { toast } from './toast.tsx'

export function CopyButton({ text, label }: { readonly text: string; readonly label: string }) {
  const [done, setDone] = useState(false)
  const copy = async () => {
    try {
      await navigator.clipboard.writeText(text)
      setDone(true)
      setTimeout(() => setDone(false), 1500)
    } catch {
      toast({
        tone: 'bad',
        title: 'The browser does not allow copying',
        body: 'Select the text and copy it manually.',
      })
    }
  }
  return (
    <Button look="quiet" size="smallIcon" aria-label={done ? 'Copied' : label} onClick={() => void copy()}>
      {done ? <Check aria-hidden="true" size={14} className="text-good" /> : <Copy aria-hidden="true" size={14} />}
    </Button>
  )
}

/** Shows a value with a button to copy it: a command, a token, an address. */
export function CopyBox({ text, label }: { readonly text: string; readonly label: string }) {
  const code = useRef<HTMLElement>(null)
  return (
    <div className="flex min-w-0 items-center gap-1 rounded-md border border-line bg-bg py-1 pr-1 pl-3">
      <code
        ref={code}
        tabIndex={0}
        aria-label={label}
        onFocus={() => code.current && getSelection()?.selectAllChildren(code.current)}
        className="min-w-0 flex-1 overflow-x-auto py-1 font-mono text-xs whitespace-nowrap"
      >
        {text}
      </code>
      <CopyButton text={text} label={`Copy ${label}`} />
    </div>
  )
}
