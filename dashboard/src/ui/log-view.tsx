/** A live log view that renders only the visible lines, so that 100,000 of them scroll like ten. */
import type { LogLine, StreamEvent, StreamOptions } from '@mote/client'
import { useVirtualizer } from '@tanstack/react-virtual'
import { ArrowDownToLine, Download, Pause, Play, Search } from 'lucide-react'
import { useEffect, useRef, useState } from 'react'
import { type LiveState, useStream } from '../api/live.ts'
import { ActionButton } from './action.tsx'
import { Button } from './button.tsx'
import { cx } from './cx.ts'
import { controlLook } from './form.tsx'
import { LiveDot } from './live-dot.tsx'
import { saveBlob } from './save.ts'
import { plural } from './format.ts'
import { append, asText, emptyLog, type LogBuffer, plain, search } from './log-buffer.ts'
import { Problem } from './states.tsx'

const rowPx = 20
/** If the user has scrolled at most this far from the end, the view follows new lines. */
const endPx = 40

/** An event of a log stream. */
export type LogEvent = StreamEvent<{ readonly log: LogLine; readonly snapshot: unknown; readonly gap: unknown }>

interface Props {
  /** Identifies the log; the view opens another log when this changes. */
  readonly source: string
  readonly open: (options: StreamOptions) => AsyncGenerator<LogEvent>
  /** File name of the downloaded log. */
  readonly name: string
  /** Whether the view shows a live log; false: past lines, which may span several days. */
  readonly isLive?: boolean
  /** Downloads the whole log. Without this, the download has only the loaded lines. */
  readonly download?: () => Promise<void>
  readonly className?: string
}

export function LogView({ source, open, name, isLive = true, download, className }: Props) {
  const [wanted, setWanted] = useState('')
  const [isPaused, setPaused] = useState(false)
  const { buffer, state, error } = useLog(source, open, wanted, isPaused)
  const box = useRef<HTMLDivElement>(null)
  const [isAtEnd, setAtEnd] = useState(true)
  const count = buffer.found?.length ?? buffer.lines.length
  const rows = useVirtualizer({
    count,
    getScrollElement: () => box.current,
    estimateSize: () => rowPx,
    overscan: 30,
    useFlushSync: false,
  })
  useEffect(() => {
    if (isAtEnd && !isPaused && box.current) box.current.scrollTop = box.current.scrollHeight
  }, [count, buffer, isAtEnd, isPaused])

  if (error !== undefined) return <Problem error={error} />
  return (
    <div className={cx('flex min-h-0 flex-col', className)}>
      <div className="flex flex-wrap items-center gap-2 border-b border-line px-3 py-2">
        <div className="relative min-w-32 flex-1">
          <Search aria-hidden="true" size={14} className="absolute top-2.25 left-2.5 text-faint" />
          <input
            type="search"
            aria-label="Search the log"
            placeholder="Find in these lines"
            value={wanted}
            onChange={event => setWanted(event.target.value)}
            className={cx(controlLook, 'border-line-strong pl-8')}
          />
        </div>
        {isLive && <LiveDot state={isPaused ? 'paused' : state} />}
        <span className="text-xs text-muted tabular-nums" data-testid="log-count">
          {wanted === ''
            ? plural(count, 'line')
            : `${count.toLocaleString('en')} of ${buffer.lines.length.toLocaleString('en')}`}
        </span>
        {isLive && (
          <Button look="quiet" size="small" onClick={() => setPaused(!isPaused)} aria-pressed={isPaused}>
            {isPaused ? <Play aria-hidden="true" size={13} /> : <Pause aria-hidden="true" size={13} />}
            <span className="sr-only sm:not-sr-only">{isPaused ? 'Go on' : 'Pause'}</span>
          </Button>
        )}
        {download ? (
          <ActionButton look="quiet" size="small" act={download}>
            <Download aria-hidden="true" size={13} /> <span className="sr-only sm:not-sr-only">Download</span>
          </ActionButton>
        ) : (
          <Button look="quiet" size="small" onClick={() => save(buffer, name)}>
            <Download aria-hidden="true" size={13} /> <span className="sr-only sm:not-sr-only">Download</span>
          </Button>
        )}
      </div>
      <div
        ref={box}
        role="log"
        aria-live="off"
        aria-label={`Log of ${name}`}
        tabIndex={0}
        onScroll={({ currentTarget: { scrollHeight, scrollTop, clientHeight } }) =>
          setAtEnd(scrollHeight - scrollTop - clientHeight < endPx)
        }
        className="relative min-h-0 flex-1 overflow-auto bg-bg py-2 font-mono text-xs -outline-offset-2"
      >
        {count === 0 && (
          <p className="px-4 py-8 text-center font-sans text-sm text-muted">
            {wanted === '' ? emptyWords(state, isLive) : `No line contains “${wanted}”.`}
          </p>
        )}
        <div className="relative min-w-full" style={{ height: rows.getTotalSize() }}>
          {rows.getVirtualItems().map(({ index, start }) => {
            const line = buffer.lines[buffer.found?.[index] ?? index]
            return line && <Row key={index} line={line} top={start} wanted={wanted} isDated={!isLive} />
          })}
        </div>
      </div>
      {!isAtEnd && (
        <div className="relative">
          <Button
            size="small"
            className="absolute right-4 bottom-3 shadow-(--shadow)"
            onClick={() => {
              setAtEnd(true)
              if (box.current) box.current.scrollTop = box.current.scrollHeight
            }}
          >
            <ArrowDownToLine aria-hidden="true" size={13} /> Newest
          </Button>
        </div>
      )}
    </div>
  )
}

function emptyWords(state: LiveState, isLive: boolean): string {
  if (isLive) return state === 'over' ? 'The log is empty.' : 'No lines yet. Output of the program appears here.'
  return state === 'over' ? 'No line matches. Choose another time, or remove a filter.' : 'Searching…'
}

/** Reads the log. Collects lines until the next animation frame, so that a busy log updates the page once per frame. */
function useLog(source: string, open: Props['open'], wanted: string, isPaused: boolean) {
  const [buffer, setBuffer] = useState<LogBuffer>(emptyLog)
  const waiting = useRef<LogLine[]>([])
  const frame = useRef(0)
  const latest = useRef({ wanted, isPaused })
  latest.current = { wanted, isPaused }

  const flush = () => {
    frame.current = 0
    if (latest.current.isPaused || waiting.current.length === 0) return
    const added = waiting.current
    waiting.current = []
    setBuffer(known => append(known, added, latest.current.wanted))
  }
  const flushSoon = () => {
    frame.current ||= requestAnimationFrame(flush)
  }
  useEffect(() => setBuffer(known => search(known, wanted)), [wanted])
  useEffect(() => {
    if (!isPaused) flushSoon()
  }, [isPaused])
  useEffect(() => {
    setBuffer(emptyLog())
    waiting.current = []
    return () => cancelAnimationFrame(frame.current)
  }, [source])
  const { state, error } = useStream(source, open, ({ event, data }) => {
    if (event !== 'log') return
    waiting.current.push(data)
    flushSoon()
  })
  return { buffer, state, error }
}

function Row({
  line,
  top,
  wanted,
  isDated,
}: {
  readonly line: LogLine
  readonly top: number
  readonly wanted: string
  readonly isDated: boolean
}) {
  return (
    <div
      className="absolute left-0 flex h-5 w-max min-w-full items-center gap-3 px-4 whitespace-pre hover:bg-hover"
      style={{ transform: `translateY(${top}px)` }}
    >
      <span className="text-faint">{isDated ? line.at.slice(5, 19).replace('T', ' ') : line.at.slice(11, 23)}</span>
      <span className="hidden text-faint sm:inline">{line.vm_id.slice(-6)}</span>
      <span
        className={line.stream === 'stderr' ? 'text-bad' : line.stream === 'system' ? 'text-muted italic' : undefined}
      >
        <Marked text={plain(line.line)} wanted={wanted} />
      </span>
    </div>
  )
}

/** Highlights the first occurrence of the search text. */
function Marked({ text, wanted }: { readonly text: string; readonly wanted: string }) {
  const at = wanted === '' ? -1 : text.toLowerCase().indexOf(wanted.toLowerCase())
  if (at === -1) return text
  const end = at + wanted.length
  return (
    <>
      {text.slice(0, at)}
      <mark className="rounded-sm bg-warn-soft text-warn">{text.slice(at, end)}</mark>
      {text.slice(end)}
    </>
  )
}

function save(buffer: LogBuffer, name: string): void {
  saveBlob(new Blob([asText(buffer)], { type: 'text/plain' }), `${name}.log`)
}
