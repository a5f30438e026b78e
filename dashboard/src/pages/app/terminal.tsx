/** A shell in the app's VM. */
import '@xterm/xterm/css/xterm.css'
import { connectSession, type SessionConnection, type SessionResult } from '@mote/client'
import { FitAddon } from '@xterm/addon-fit'
import { Terminal as Screen } from '@xterm/xterm'
import { SquareTerminal } from 'lucide-react'
import { useEffect, useRef, useState } from 'react'
import { api } from '../../api/client.ts'
import { currentProject } from '../../api/project.ts'
import { currentToken } from '../../api/session.ts'
import { Button } from '../../ui/button.tsx'
import { Card } from '../../ui/layout.tsx'
import { Problem } from '../../ui/states.tsx'
import { allowTerminalStyles } from './terminal-styles.ts'
import { useApp } from './use-app.ts'

/** Runs Bash if the image has it, otherwise /bin/sh, which every image with a shell has. */
const shell = ['/bin/sh', '-c', 'if command -v bash >/dev/null 2>&1; then exec bash -l; else exec /bin/sh -l; fi']

export function Terminal() {
  const app = useApp()
  const box = useRef<HTMLDivElement>(null)
  /** Counts the shells that were opened; 0: none yet. */
  const [opened, setOpened] = useState(0)
  const [state, setState] = useState<'connecting' | 'open' | 'waiting' | 'ended'>('connecting')
  const [error, setError] = useState<unknown>()

  useEffect(() => {
    if (opened === 0 || !box.current) return
    setState('connecting')
    setError(undefined)
    return runShell(app.name, box.current, setState, setError)
  }, [app.name, opened])

  return (
    <Card flush className="overflow-hidden">
      <div className="flex items-center justify-between gap-2 border-b border-line px-3 py-2 text-sm">
        <span role="status" className="text-muted">
          {opened === 0 ? 'A shell in the first running VM' : words[state]}
        </span>
        <Button size="small" onClick={() => setOpened(opened + 1)}>
          <SquareTerminal aria-hidden="true" size={14} /> {opened === 0 ? 'Open a shell' : 'New shell'}
        </Button>
      </div>
      {error !== undefined && <Problem error={error} />}
      <div ref={box} data-testid="terminal" className="h-[calc(100dvh-18rem)] min-h-80 bg-black p-2" />
    </Card>
  )
}

const words = {
  connecting: 'Connecting',
  open: 'Connected',
  waiting: 'The connection was lost. Connecting again',
  ended: 'The shell has ended',
} as const

/** Opens a shell in the element. Returns a function that closes it. */
function runShell(
  app_name: string,
  box: HTMLElement,
  onState: (state: keyof typeof words) => void,
  onError: (error: unknown) => void,
): () => void {
  const endStyles = allowTerminalStyles()
  const screen = new Screen({
    cursorBlink: true,
    fontFamily: '"Geist Mono Variable", monospace',
    fontSize: 13,
  })
  const fit = new FitAddon()
  screen.loadAddon(fit)
  screen.open(box)
  fit.fit()
  const gone = new AbortController()
  let connection: SessionConnection | undefined
  const resized = new ResizeObserver(() => fit.fit())
  resized.observe(box)
  screen.onResize(({ rows, cols }) => connection?.resize(rows, cols))
  screen.onData(text => void connection?.write(new TextEncoder().encode(text)))
  screen.onBinary(text => void connection?.write(Uint8Array.from(text, letter => letter.charCodeAt(0))))
  openShell(app_name, screen, gone.signal, onState, opened => {
    connection = opened
  })
    .then(
      () => onState('ended'),
      (cause: unknown) => {
        if (!gone.signal.aborted) onError(cause)
      },
    )
    .catch(() => undefined)
  screen.focus()
  return () => {
    gone.abort()
    resized.disconnect()
    screen.dispose()
    endStyles()
  }
}

async function openShell(
  app_name: string,
  screen: Screen,
  gone: AbortSignal,
  onState: (state: 'open' | 'waiting') => void,
  onConnection: (connection: SessionConnection) => void,
): Promise<SessionResult> {
  const { rows, cols: columns } = screen
  const job_id = (await api.listActiveDeployments()).find(one => one.app_name === app_name)?.job_id
  if (job_id === undefined) throw new Error('The app has no running deployment.')
  const body = { command: shell, tty: { rows, columns }, env: { TERM: 'xterm-256color' } }
  const { id: session_id } = await api.openVmSession({ app_name, job_id, body })
  const place = { app_name, job_id, session_id }
  const words = [app_name, job_id, session_id].map(encodeURIComponent)
  const connection = connectSession({
    baseUrl: '',
    path: `/v1/apps/${words[0]}/deployments/${words[1]}/sessions/${words[2]}/attach`,
    project: currentProject.get(),
    token: currentToken,
    // If the connection ended because the access token had expired, this request renews the token.
    state: async () => {
      const { status, exit_code, signal } = await api.getVmSession(place)
      return status === 'running' ? undefined : { reason: status, code: exit_code ?? signal }
    },
    onOutput: (_, data) => new Promise(resolve => screen.write(data, resolve)),
    onLost: (_, bytes) => screen.write(`\r\n(${bytes} bytes are missing)\r\n`),
    onState,
  })
  const close = () => {
    connection.detach()
    api.closeVmSession(place).catch(() => undefined)
  }
  if (gone.aborted) close()
  gone.addEventListener('abort', close, { once: true })
  onConnection(connection)
  return connection.ended
}
