/** Opens the command palette: a button in the top bar, and Ctrl+K or ⌘K from anywhere but a terminal. */
import { Search } from 'lucide-react'
import { lazy, Suspense, useEffect, useState } from 'react'

const Palette = lazy(() => import('./palette.tsx'))
const isApple = /Mac|iPhone|iPad/.test(navigator.userAgent)

/** Whether the key was pressed in a terminal, where Ctrl+K deletes to the end of the line. */
const inTerminal = ({ target }: Event) => target instanceof Element && target.closest('.xterm') !== null

export function Find() {
  const [isOpen, setOpen] = useState(false)
  useEffect(() => {
    const onKey = (event: KeyboardEvent) => {
      if (event.key.toLowerCase() !== 'k' || event.shiftKey || event.altKey || inTerminal(event)) return
      if (!(isApple ? event.metaKey : event.ctrlKey)) return
      event.preventDefault()
      setOpen(true)
    }
    document.addEventListener('keydown', onKey)
    return () => document.removeEventListener('keydown', onKey)
  }, [])
  return (
    <>
      <button
        type="button"
        aria-keyshortcuts={isApple ? 'Meta+K' : 'Control+K'}
        onClick={() => setOpen(true)}
        className="flex h-8 items-center gap-2 rounded-md px-2 text-muted hover:bg-hover hover:text-text sm:border sm:border-line sm:bg-surface"
      >
        <Search aria-hidden="true" size={15} />
        <span className="sr-only text-xs sm:not-sr-only">Find</span>
        <kbd className="hidden font-mono text-xs sm:inline">{isApple ? '⌘K' : 'Ctrl K'}</kbd>
      </button>
      {isOpen && (
        <Suspense>
          <Palette close={() => setOpen(false)} />
        </Suspense>
      )}
    </>
  )
}
