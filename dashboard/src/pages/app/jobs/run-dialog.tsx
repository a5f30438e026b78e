import type { Run } from '@mote/client'
import { keepPreviousData, useQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { useEffect, useRef } from 'react'
import { queries } from '../../../api/queries.ts'
import { Button } from '../../../ui/button.tsx'
import { Dialog } from '../../../ui/dialog.tsx'
import { duration } from '../../../ui/format.ts'
import { Fact, Facts, Mono } from '../../../ui/layout.tsx'
import { plain } from '../../../ui/log-buffer.ts'
import { Loaded, Notice } from '../../../ui/states.tsx'
import { Status } from '../../../ui/status.tsx'
import { Ago } from '../../../ui/time.tsx'
import { CancelRun } from './cancel-run.tsx'
import { summaryOf } from './command.ts'
import { isOpen, nameOf, tookMs } from './run-words.ts'

/** Shows state, error and output of one run, and refreshes them while the dialog is open. */
export function RunDialog({
  app,
  id,
  close,
}: {
  readonly app: string
  readonly id: string
  readonly close: () => void
}) {
  const run = useQuery(queries.run(app, id))
  return (
    <Dialog title={run.data ? nameOf(run.data) : 'Run'} close={close} wide>
      <Loaded query={run}>{one => <Details app={app} run={one} />}</Loaded>
    </Dialog>
  )
}

function Details({ app, run }: { readonly app: string; readonly run: Run }) {
  const took = tookMs(run)
  return (
    <div className="space-y-4">
      <Facts>
        <Fact name="Status">
          <Status status={run.status} />
        </Fact>
        <Fact name="Exit code">{run.exit_code ?? 'none'}</Fact>
        <Fact name="Started">
          <Ago at={run.started_at} />
        </Fact>
        <Fact name="Duration">{took === undefined ? 'none yet' : duration(took)}</Fact>
        <Fact name="Time limit">{duration(run.timeout_seconds * 1000)}</Fact>
        {run.due_at && (
          <Fact name="Scheduled for">
            <Ago at={run.due_at} />
          </Fact>
        )}
        <Fact name="Deployment" wide>
          <Link to="/apps/$app/deployments/$job" params={{ app, job: run.job_id }} className="hover:underline">
            <Mono>{run.job_id}</Mono>
          </Link>
        </Fact>
      </Facts>
      {run.command && (
        <pre
          aria-label="Command"
          tabIndex={0}
          className="max-h-32 overflow-auto rounded-md border border-line px-3 py-2 font-mono text-xs whitespace-pre-wrap wrap-anywhere"
        >
          {summaryOf(run.command)}
        </pre>
      )}
      <Output app={app} run={run} />
      {isOpen(run) && (
        <div className="flex justify-end">
          <CancelRun app={app} run={run} trigger={open => <Button onClick={open}>Cancel run</Button>} />
        </div>
      )}
    </div>
  )
}

function Output({ app, run }: { readonly app: string; readonly run: Run }) {
  const log = useQuery({
    ...queries.runLog(app, run.id, run.ended_at),
    refetchInterval: isOpen(run) && 1500,
    placeholderData: keepPreviousData,
  })
  const box = useRef<HTMLPreElement>(null)
  const text = log.data?.text
  useEffect(() => {
    if (box.current) box.current.scrollTop = box.current.scrollHeight
  }, [text])
  return (
    <>
      {/* Cut the last output lines from the error message, because the whole output is shown below it. */}
      {run.error && <Notice tone="bad">{text ? run.error.split(/ ?Last lines:\n|\n/, 1)[0] : run.error}</Notice>}
      <Loaded query={log}>
        {() => (
          <pre
            ref={box}
            role="log"
            aria-live="off"
            aria-label="Output"
            tabIndex={0}
            className="max-h-80 min-h-16 overflow-auto rounded-md border border-line bg-bg px-3 py-2 font-mono text-xs whitespace-pre-wrap wrap-anywhere"
          >
            {text ? plain(text) : <span className="font-sans text-sm text-muted">{emptyWords(run)}</span>}
          </pre>
        )}
      </Loaded>
    </>
  )
}

const emptyWords = (run: Run) => (isOpen(run) ? 'No output yet.' : 'The command wrote no output.')
