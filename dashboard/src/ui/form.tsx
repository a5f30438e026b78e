/** Forms: values are read on submit, and the server's field errors are shown at their fields. */
import { ApiFailure } from '@mote/client'
import {
  createContext,
  type FormEvent,
  type InputHTMLAttributes,
  type ReactNode,
  type SelectHTMLAttributes,
  type TextareaHTMLAttributes,
  useContext,
  useId,
  useRef,
  useState,
} from 'react'
import { Button } from './button.tsx'
import { cx } from './cx.ts'
import { faultText } from './fault-text.ts'
import { messageOf, Notice } from './states.tsx'

type FieldErrors = Readonly<Record<string, string>>
const Errors = createContext<FieldErrors>({})

export interface Values {
  text(name: string): string
  /** Returns the text of a field; undefined if the field is empty. */
  optional(name: string): string | undefined
  number(name: string): number | undefined
  checked(name: string): boolean
  /** Returns the files of a file field; empty if none were selected. */
  files(name: string): readonly File[]
}

function valuesOf(data: FormData): Values {
  const text = (name: string) => {
    const value = data.get(name)
    return typeof value === 'string' ? value : ''
  }
  return {
    text,
    optional: name => text(name) || undefined,
    number: name => (text(name) === '' ? undefined : Number(text(name))),
    checked: name => data.get(name) === 'on',
    // An empty file field contains one file without a name.
    files: name => data.getAll(name).filter(value => value instanceof File && value.name !== '') as File[],
  }
}

/**
 * A form with a submit button.
 * @param send submits the values. Errors of the API about a field are shown at that field, other errors above the
 * buttons
 */
export function Form({
  send,
  submit,
  look = 'primary',
  secondary,
  children,
  className,
  wide = false,
}: {
  readonly send: (values: Values) => Promise<unknown>
  readonly submit: string
  readonly look?: 'primary' | 'danger' | 'plain'
  readonly secondary?: ReactNode
  readonly children?: ReactNode
  readonly className?: string
  /** Whether the submit button takes the full width. */
  readonly wide?: boolean
}) {
  const [busy, setBusy] = useState(false)
  const [error, setError] = useState<unknown>()
  const form = useRef<HTMLFormElement>(null)
  const faults = error instanceof ApiFailure ? error.details : []
  const names = [...(form.current?.elements ?? [])].map(element => element.getAttribute('name'))
  const atFields = Object.fromEntries(
    faults.filter(({ field }) => names.includes(field)).map(f => [f.field, f.message]),
  )
  const isSaid = faults.length > 0 && faults.every(({ field }) => field in atFields)

  const submitted = async (event: FormEvent<HTMLFormElement>) => {
    event.preventDefault()
    if (busy) return
    setBusy(true)
    setError(undefined)
    try {
      await send(valuesOf(new FormData(event.currentTarget)))
    } catch (cause) {
      setError(cause)
      const [first] = cause instanceof ApiFailure ? cause.details : []
      if (first) form.current?.querySelector<HTMLElement>(`[name="${CSS.escape(first.field)}"]`)?.focus()
    } finally {
      setBusy(false)
    }
  }
  return (
    <Errors value={atFields}>
      <form
        ref={form}
        onSubmit={event => void submitted(event)}
        noValidate={false}
        className={cx('space-y-4', className)}
      >
        {children}
        {error !== undefined && !isSaid && <Notice tone="bad">{messageOf(error)}</Notice>}
        <div className={cx('flex items-center gap-2', !wide && 'justify-end')}>
          {secondary}
          <Button type="submit" look={look} busy={busy} className={wide ? 'w-full' : undefined}>
            {submit}
          </Button>
        </div>
      </form>
    </Errors>
  )
}

interface Labelled {
  readonly label: string
  readonly name: string
  readonly hint?: ReactNode
}

export function Around({
  id,
  label,
  name,
  hint,
  children,
}: Labelled & { readonly id: string; readonly children: ReactNode }) {
  const fault = useContext(Errors)[name]
  return (
    <div className="min-w-0">
      <label htmlFor={id} className="mb-1 block text-sm font-medium">
        {label}
      </label>
      {children}
      {fault ? (
        <p id={`${id}-note`} className="mt-1 text-xs text-bad">
          {faultText(label, fault)}
        </p>
      ) : (
        hint && (
          <p id={`${id}-note`} className="mt-1 text-xs text-muted">
            {hint}
          </p>
        )
      )}
    </div>
  )
}

export const controlLook =
  'h-8 w-full min-w-0 rounded-md border bg-surface px-2.5 text-sm transition-colors hover:border-faint disabled:opacity-60'

export function useControl(name: string, hint: ReactNode) {
  const id = useId()
  const isWrong = useContext(Errors)[name] !== undefined
  const described = isWrong || hint ? { 'aria-describedby': `${id}-note` } : {}
  return { id, attributes: { id, name, 'aria-invalid': isWrong || undefined, ...described }, isWrong }
}

export function Field({
  label,
  name,
  hint,
  mono = false,
  ...input
}: Labelled & { readonly mono?: boolean } & Omit<InputHTMLAttributes<HTMLInputElement>, 'name' | 'className'>) {
  const { id, attributes, isWrong } = useControl(name, hint)
  return (
    <Around id={id} label={label} name={name} hint={hint}>
      <input
        {...input}
        {...attributes}
        className={cx(controlLook, mono && 'font-mono text-xs', isWrong ? 'border-bad' : 'border-line-strong')}
      />
    </Around>
  )
}

/** A field for several lines of text, such as a script. */
export function TextArea({
  label,
  name,
  hint,
  ...area
}: Labelled & Omit<TextareaHTMLAttributes<HTMLTextAreaElement>, 'name' | 'className'>) {
  const { id, attributes, isWrong } = useControl(name, hint)
  return (
    <Around id={id} label={label} name={name} hint={hint}>
      <textarea
        {...area}
        {...attributes}
        className={cx(
          'block w-full min-w-0 rounded-md border bg-surface px-2.5 py-1.75 font-mono text-xs transition-colors hover:border-faint',
          isWrong ? 'border-bad' : 'border-line-strong',
        )}
      />
    </Around>
  )
}

type FieldProps = Parameters<typeof Field>[0]

/** A field for the name of a new resource; the first field of its form. */
export const NameField = ({ label = 'Name', name = 'name', ...field }: Partial<FieldProps>) => (
  <Field label={label} name={name} required autoFocus mono autoComplete="off" spellCheck={false} {...field} />
)

/** A required field for a number. */
export const NumberField = (field: Omit<FieldProps, 'type' | 'required'>) => <Field type="number" required {...field} />

export function Choice({
  label,
  name,
  hint,
  children,
  ...select
}: Labelled & Omit<SelectHTMLAttributes<HTMLSelectElement>, 'name' | 'className'>) {
  const { id, attributes, isWrong } = useControl(name, hint)
  return (
    <Around id={id} label={label} name={name} hint={hint}>
      <select {...select} {...attributes} className={cx(controlLook, isWrong ? 'border-bad' : 'border-line-strong')}>
        {children}
      </select>
    </Around>
  )
}

export function Check({
  label,
  name,
  hint,
  ...input
}: Labelled & Omit<InputHTMLAttributes<HTMLInputElement>, 'name' | 'className' | 'type'>) {
  const { attributes, id } = useControl(name, hint)
  return (
    <div className="flex items-start gap-2.5">
      <input type="checkbox" {...input} {...attributes} className="mt-0.5 size-4 accent-accent" />
      <div>
        <label htmlFor={id} className="text-sm font-medium">
          {label}
        </label>
        {hint && (
          <p id={`${id}-note`} className="text-xs text-muted">
            {hint}
          </p>
        )}
      </div>
    </div>
  )
}
