import { useQuery } from '@tanstack/react-query'
import { Link, useParams } from '@tanstack/react-router'
import { CircleCheck, CircleDashed, CircleX, ExternalLink, LayoutTemplate } from 'lucide-react'
import { useDeferredValue, useState } from 'react'
import type { StackService } from '../../../../src/compose/stack.ts'
import { passwordOf, type Template } from '../../../../src/compose/template.ts'
import { currentProject } from '../../api/project.ts'
import { queries } from '../../api/queries.ts'
import { useStore } from '../../api/store.ts'
import { LinkButton, Spinner } from '../../ui/button.tsx'
import { CopyBox } from '../../ui/copy.tsx'
import { Field, Form, NameField, type Values } from '../../ui/form.tsx'
import { mib, plural } from '../../ui/format.ts'
import { Card, Mono, Page } from '../../ui/layout.tsx'
import { Empty, Notice } from '../../ui/states.tsx'
import { templates } from './catalog.ts'
import { currentRun, deployTemplate, previewOf, type Run } from './deploy.ts'

export function TemplatePage() {
  const { name } = useParams({ from: '/shell/templates/$name' })
  const template = templates.find(one => one.name === name)
  if (template) return <Whole key={name} template={template} />
  return (
    <Page title="Template">
      <Empty
        icon={LayoutTemplate}
        title="No such template"
        action={<LinkButton to="/templates">All templates</LinkButton>}
      >
        This version of Mote does not have it.
      </Empty>
    </Page>
  )
}

function Whole({ template }: { readonly template: Template }) {
  const project = useStore(currentProject)
  const run = useStore(currentRun)
  const own = run?.template === template.name && run.project === project ? run : undefined
  const [name, setName] = useState(own?.stack ?? template.name)
  return (
    <Page
      title={template.title}
      lead={template.description}
      actions={
        <a
          href={template.website}
          target="_blank"
          rel="noreferrer"
          className="flex items-center gap-1 text-muted hover:text-text hover:underline"
        >
          {new URL(template.website).hostname} <ExternalLink aria-label="opens in a new tab" size={12} />
        </a>
      }
    >
      <div className="grid items-start gap-4 lg:grid-cols-2">
        {own && own.state !== 'failed' ? (
          <Progress run={own} template={template} />
        ) : (
          <Card title="Deploy">
            {own?.state === 'failed' && (
              <div className="mb-4 whitespace-pre-line">
                <Notice tone="bad">{own.error}</Notice>
              </div>
            )}
            <Questions template={template} run={own} name={name} setName={setName} />
          </Card>
        )}
        <Preview template={template} name={own?.stack ?? name} />
      </div>
    </Page>
  )
}

function Questions({
  template,
  run,
  name,
  setName,
}: {
  readonly template: Template
  /** The failed deployment of this template, which the form continues; undefined if there is none. */
  readonly run: Run | undefined
  readonly name: string
  readonly setName: (name: string) => void
}) {
  // Generate passwords only once, so that typing in another field does not change them.
  const [initial] = useState(() => new Map(template.questions.map(one => [one.name, initialOf(one, run)])))
  const send = async (values: Values) => {
    const answers = new Map(template.questions.map(one => [one.name, values.text(`answer-${one.name}`)]))
    await deployTemplate(template, values.text('name'), answers)
  }
  return (
    <Form submit={run ? 'Continue' : 'Deploy'} send={send}>
      <NameField
        maxLength={40}
        pattern="[a-z0-9]([a-z0-9\-]*[a-z0-9])?"
        title="Lowercase letters, digits and dashes"
        value={name}
        onChange={event => setName(event.target.value)}
        hint="Name of the stack and its main app: lowercase letters, digits and dashes."
      />
      {template.questions.map(({ name: key, ask, generate }) => (
        <Field
          key={key}
          label={ask}
          name={`answer-${key}`}
          required
          mono={generate !== undefined}
          maxLength={1000}
          autoComplete="off"
          spellCheck={false}
          defaultValue={initial.get(key)}
          hint={generate === undefined ? undefined : 'Generated. Stored as a secret, and not shown again later.'}
        />
      ))}
    </Form>
  )
}

function initialOf({ name, generate, fallback }: Template['questions'][number], run: Run | undefined): string {
  const before = run?.answers.get(name)
  if (before !== undefined) return before
  if (generate === undefined) return fallback ?? ''
  return passwordOf(crypto.getRandomValues(new Uint8Array(generate)), generate)
}

function Preview({ template, name }: { readonly template: Template; readonly name: string }) {
  const stack = useDeferredValue(/^[a-z0-9]([a-z0-9-]*[a-z0-9])?$/.test(name) ? name : template.name)
  const preview = useQuery({
    queryKey: ['template', template.name, stack],
    queryFn: () => previewOf(template, stack, new Map(template.questions.map(one => [one.name, one.name]))),
    staleTime: Infinity,
    placeholderData: before => before,
  })
  const services = preview.data?.services ?? []
  return (
    <Card
      flush
      title="What is created"
      lead={preview.data && `${plural(services.length, 'app')}, ${plural(preview.data.volumes.length, 'volume')}`}
    >
      <ul aria-label="What is created" className="divide-y divide-line">
        {services.map(service => (
          <Service key={service.name} service={service} />
        ))}
      </ul>
    </Card>
  )
}

function Service({ service: { app } }: { readonly service: StackService }) {
  const { vcpus, memory_mib, port } = app.processes.web
  return (
    <li className="space-y-1 px-4 py-3">
      <p className="flex flex-wrap items-baseline justify-between gap-x-3">
        <span className="font-semibold">{app.app}</span>
        <span className="text-xs text-muted">
          {vcpus} vCPU · {mib(memory_mib)}
        </span>
      </p>
      {'image' in app.build && <Mono className="block truncate text-muted">{app.build.image}</Mono>}
      <p className="text-muted">
        {app.kind === 'worker' ? 'Reached only by other apps of the project.' : `Online over HTTP, from port ${port}.`}
      </p>
      {app.volumes.map(volume => (
        <p key={volume.name} className="text-muted wrap-anywhere">
          Volume <Mono>{volume.name}</Mono> of {mib(volume.size_mib)} at <Mono>{volume.mount}</Mono>
        </p>
      ))}
    </li>
  )
}

function Progress({ run, template }: { readonly run: Run; readonly template: Template }) {
  const apps = useQuery(queries.apps())
  const isDone = run.state === 'done'
  const main = apps.data?.find(({ name }) => name === run.stack)
  const generated = template.questions.filter(one => one.generate !== undefined)
  return (
    <div className="space-y-4">
      <Card
        title={isDone ? `${run.stack} runs` : `Deploying ${run.stack}`}
        lead={isDone ? undefined : 'Keep this tab open until it is done.'}
      >
        <ul aria-label="Apps of the stack" className="space-y-2">
          {run.apps.map(app => (
            <li key={app} className="flex items-center gap-2">
              <AppState run={run} app={app} />
              <Link to="/apps/$app" params={{ app }} className="font-medium hover:underline">
                {app}
              </Link>
            </li>
          ))}
        </ul>
        <p role="status" className="mt-3 text-xs text-muted">
          {isDone ? 'Every app is healthy.' : run.step}
        </p>
        {isDone && (
          <div className="mt-4 flex flex-wrap items-center gap-3">
            <LinkButton to="/apps/$app" params={{ app: run.stack }} look="primary">
              Open the app
            </LinkButton>
            {main?.url && main.kind !== 'worker' && (
              <a
                href={main.url}
                target="_blank"
                rel="noreferrer"
                className="flex min-w-0 items-center gap-1 font-mono text-xs text-muted hover:text-text hover:underline"
              >
                <span className="truncate">{main.hostname}</span>
                <ExternalLink aria-label="opens in a new tab" size={11} className="shrink-0" />
              </a>
            )}
          </div>
        )}
      </Card>
      {generated.length > 0 && (
        <Card title="Passwords and keys" lead="Save them now. They are stored as secrets, and not shown again.">
          <div className="space-y-3">
            {generated.map(({ name, ask }) => (
              <div key={name}>
                <p className="mb-1 text-sm font-medium">{ask}</p>
                <CopyBox text={run.answers.get(name) ?? ''} label={ask} />
              </div>
            ))}
          </div>
        </Card>
      )}
    </div>
  )
}

function AppState({ run, app }: { readonly run: Run; readonly app: string }) {
  if (run.serving.includes(app)) return <CircleCheck aria-label="Healthy" size={15} className="text-good" />
  if (run.state === 'failed') return <CircleX aria-label="Failed" size={15} className="text-bad" />
  const isNext = run.apps.find(one => !run.serving.includes(one)) === app
  if (isNext) return <Spinner />
  return <CircleDashed aria-label="Waiting" size={15} className="text-faint" />
}
