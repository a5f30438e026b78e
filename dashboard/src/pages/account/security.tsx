import { useQuery } from '@tanstack/react-query'
import { ShieldCheck, ShieldOff } from 'lucide-react'
import { useState } from 'react'
import { api } from '../../api/client.ts'
import { queries, queryClient } from '../../api/queries.ts'
import { accept } from '../sign-in.tsx'
import { Button } from '../../ui/button.tsx'
import { CopyBox } from '../../ui/copy.tsx'
import { Dialog, FormDialog } from '../../ui/dialog.tsx'
import { Field, Form } from '../../ui/form.tsx'
import { Card } from '../../ui/layout.tsx'
import { Loaded, Notice } from '../../ui/states.tsx'
import { Badge } from '../../ui/status.tsx'
import { toast } from '../../ui/toast.tsx'

export function Security() {
  const me = useQuery(queries.me())
  return (
    <Loaded query={me}>
      {user => (
        <div className="space-y-4">
          <Password email={user.email} hasTotp={user.totp_enabled} />
          <Card
            title={
              <span className="flex items-center gap-2">
                Two-factor authentication
                <Badge tone={user.totp_enabled ? 'good' : 'warn'}>{user.totp_enabled ? 'On' : 'Off'}</Badge>
              </span>
            }
            lead="A code from your phone in addition to your password."
          >
            {user.totp_enabled ? <SwitchOff /> : <SwitchOn />}
          </Card>
        </div>
      )}
    </Loaded>
  )
}

function Password({ email, hasTotp }: { readonly email: string; readonly hasTotp: boolean }) {
  return (
    <Card title="Password" lead="Changing it signs you out of all other sessions. Access tokens remain valid.">
      <Form
        className="max-w-sm"
        submit="Change password"
        send={async values => {
          const password = values.text('new_password')
          await api.changePassword({
            body: { current_password: values.text('current_password'), new_password: password },
          })
          // Sign in again, because changing the password has ended every session, including this one.
          const code = values.optional('code')
          accept(await api.login({ body: { email, password, ...(code ? { code } : {}) } }))
          toast({ tone: 'good', title: 'Password changed' })
        }}
      >
        <Field
          label="Current password"
          name="current_password"
          type="password"
          required
          autoComplete="current-password"
        />
        <Field
          label="New password"
          name="new_password"
          type="password"
          required
          minLength={8}
          autoComplete="new-password"
        />
        {hasTotp && (
          <Field
            label="Code"
            name="code"
            required
            mono
            autoComplete="one-time-code"
            hint="Code from your authenticator app. It signs you in again with the new password."
          />
        )}
      </Form>
    </Card>
  )
}

function SwitchOff() {
  return (
    <div className="flex flex-wrap items-center justify-between gap-3">
      <p className="flex items-center gap-2 text-muted">
        <ShieldCheck aria-hidden="true" size={16} className="text-good" /> Signing in asks for a code.
      </p>
      <FormDialog
        title="Turn off two-factor authentication"
        lead="Your password alone is then enough to sign in."
        submit="Switch off"
        look="danger"
        trigger={open => <Button onClick={open}>Switch off</Button>}
        send={async values => {
          await api.disableTotp({ body: { password: values.text('password') } })
          await queryClient.invalidateQueries({ queryKey: ['me'] })
        }}
        fields={
          <Field label="Password" name="password" type="password" required autoFocus autoComplete="current-password" />
        }
      />
    </div>
  )
}

function SwitchOn() {
  const [isOpen, setOpen] = useState(false)
  const [codes, setCodes] = useState<readonly string[]>()
  const close = async () => {
    setOpen(false)
    setCodes(undefined)
    queryClient.removeQueries({ queryKey: ['totp'] })
    await queryClient.invalidateQueries({ queryKey: ['me'] })
  }
  return (
    <div className="flex flex-wrap items-center justify-between gap-3">
      <p className="flex items-center gap-2 text-muted">
        <ShieldOff aria-hidden="true" size={16} className="text-warn" /> Your password alone signs you in.
      </p>
      <Button look="primary" onClick={() => setOpen(true)}>
        Switch on
      </Button>
      {isOpen && (
        <Dialog
          title={codes ? 'Save your recovery codes' : 'Turn on two-factor authentication'}
          close={() => void close()}
        >
          {codes ? <RecoveryCodes codes={codes} close={() => void close()} /> : <Setup done={setCodes} />}
        </Dialog>
      )}
    </div>
  )
}

function Setup({ done }: { readonly done: (codes: readonly string[]) => void }) {
  const setup = useQuery({
    queryKey: ['totp'],
    queryFn: ({ signal }) => api.setupTotp({ signal }),
    staleTime: Number.POSITIVE_INFINITY,
    gcTime: 0,
  })
  return (
    <Loaded query={setup}>
      {({ qr_code, secret }) => (
        <div className="space-y-4">
          <p className="text-muted">Scan this with an authenticator app, then enter the code it shows.</p>
          <img
            src={qr_code}
            alt="QR code for your authenticator"
            width="180"
            height="180"
            className="mx-auto rounded-lg bg-white p-2"
          />
          <div>
            <p className="mb-1 text-xs text-muted">Or enter this secret:</p>
            <CopyBox text={secret} label="secret" />
          </div>
          <Form
            wide
            submit="Switch on"
            send={async values => {
              const password = values.text('password')
              const proof = password === '' ? {} : { password }
              done((await api.verifyTotp({ body: { code: values.text('code'), ...proof } })).recovery_codes)
            }}
          >
            <Field
              label="Code"
              name="code"
              required
              mono
              autoComplete="one-time-code"
              inputMode="numeric"
              placeholder="123456"
            />
            <Field
              label="Password"
              name="password"
              type="password"
              autoComplete="current-password"
              hint="Required if you signed in more than 10 minutes ago."
            />
          </Form>
        </div>
      )}
    </Loaded>
  )
}

function RecoveryCodes({ codes, close }: { readonly codes: readonly string[]; readonly close: () => void }) {
  return (
    <div className="space-y-4">
      <Notice tone="warn">Each code works once, if you lose your phone. They are not shown again.</Notice>
      <ul
        className="grid grid-cols-2 gap-1 rounded-md border border-line bg-bg p-3 font-mono text-xs"
        aria-label="Recovery codes"
      >
        {codes.map(code => (
          <li key={code}>{code}</li>
        ))}
      </ul>
      <CopyBox text={codes.join(' ')} label="all codes" />
      <Button look="primary" className="w-full" onClick={close}>
        I have saved them
      </Button>
    </div>
  )
}
