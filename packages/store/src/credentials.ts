export type {
  Auth,
  AuthIo,
  AuthProvider,
  AuthState,
  Credentials,
  Grant,
  KnownCredential,
} from './credentials/contract.ts'
