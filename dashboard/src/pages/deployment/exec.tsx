import type { ExecAnswer, LiveDeploymentStatus } from '@mote/client'
import { useState } from 'react'
import { api } from '../../api/client.ts'
import { Field, Form } from '../../ui/form.tsx'
import { Card } from '../../ui/layout.tsx'
import { Badge } from '../../ui/status.tsx'
import { whyNotRunning } from './machine.ts'
import { wordsOf } from './words.ts'

const limitSeconds = 30

export function Exec({ app_name, live }: { readonly app_name: string; readonly live: LiveDeploymentStatus }) {
  const [answer, setAnswer] = useState<ExecAnswer & { readonly wasEnded: boolean }>()
  const reason = whyNotRunning(live.status)
  return (
    <Card title="Run a command" lead={`Runs in the VM, without a shell, for at most ${limitSeconds} seconds.`}>
      {reason ? (
        <p className="text-muted">{reason}</p>
      ) : (
        <Form
          submit="Run"
          look="plain"
          send={async values => {
            const command = wordsOf(values.text('command'))
            const began = performance.now()
            const body = { command, timeout_seconds: limitSeconds }
            const said = await api.execInVm({ app_name, job_id: live.job_id, body })
            // Exit code 124 means a timeout, but a program can also exit with 124 itself. So check the duration, too.
            const wasEnded = said.exit_code === 124 && performance.now() - began >= limitSeconds * 1000
            setAnswer({ ...said, wasEnded })
          }}
        >
          <Field
            label="Command"
            name="command"
            mono
            required
            placeholder="uname -a"
            autoComplete="off"
            spellCheck={false}
          />
        </Form>
      )}
      {answer && (
        <div className="mt-4">
          <Badge tone={answer.exit_code === 0 ? 'good' : 'bad'}>{`exit code ${answer.exit_code}`}</Badge>
          {answer.wasEnded && (
            <span className="ml-2 text-muted">It was ended, as it still ran after {limitSeconds} seconds.</span>
          )}
          <pre
            tabIndex={0}
            aria-label="Output"
            className="mt-2 max-h-72 overflow-auto rounded-md border border-line bg-bg p-3 font-mono text-xs whitespace-pre-wrap"
          >
            {answer.stdout}
            {answer.stderr && <span className="text-bad">{answer.stderr}</span>}
            {answer.truncated && <span className="text-warn">… (the rest of the output was cut)</span>}
          </pre>
        </div>
      )}
    </Card>
  )
}
