SELECT carrier, name
FROM read_csv('data/airlines.csv.gz')
